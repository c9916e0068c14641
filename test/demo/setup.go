package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/env"
)

// namespace is where the story happens. It is deleted when a demo begins.
const namespace = "demo"

// ours marks the namespace as the demo's, so that nobody else's is deleted.
var ours = map[string]string{"app.kubernetes.io/managed-by": "confrev-demo"}

// userFiles are what a user would have written (no trace of confrev but one annotation), and the columns for kubectl to
// show.
//
//go:embed web canary attach columns
var userFiles embed.FS

// setUp starts the cluster and confrev in it, and clears away what an earlier demo left.
func (s *story) setUp(t tale) error {
	steps := []struct {
		what string
		do   func(context.Context) error
	}{
		{fmt.Sprintf("Start cluster %q, unless it runs", s.place.name), func(ctx context.Context) error { return s.startCluster(ctx, t.rollouts) }},
		{"Install the chart by Helm, build confrev, make an empty namespace " + namespace, s.installAll},
		{"Start confrev as a process with the rights of the chart's ServiceAccount", func(ctx context.Context) error { return s.startConfrev(ctx, t.flags) }},
	}
	for _, step := range steps {
		began := time.Now()
		s.out.note("%s …", step.what)
		if err := step.do(s.ctx); err != nil {
			return err
		}
		if took := time.Since(began); took > time.Second {
			s.out.note("  %s", seconds(took))
		}
	}
	s.out.note("confrev runs: pid %d, log %s", s.place.livePid(), s.place.log())
	return nil
}

func (s *story) startCluster(ctx context.Context, rollouts bool) error {
	var flags []string
	if rollouts {
		flags = append(flags, env.ArgoRollouts)
	}
	cluster, err := env.Up(ctx, s.place.name, os.Stdout, flags...)
	if err != nil {
		return err
	}
	// What the demo makes outlives it, so it goes to a lasting folder.
	temporary := cluster.Dir
	cluster.Dir = s.place.dir
	s.cluster = cluster
	if s.kubectlPath, err = cluster.Tool(ctx, "kubectl"); err != nil {
		return err
	}
	if rollouts {
		plugin, err := cluster.Tool(ctx, "kubectl-argo-rollouts")
		if err != nil {
			return err
		}
		s.plugins = filepath.Dir(plugin)
	}
	return errors.Join(os.Remove(temporary), s.writeKubeconfig(), s.writeManifests())
}

// writeKubeconfig writes the one of the shown commands: they need no --namespace then, nor do the user's.
func (s *story) writeKubeconfig() error {
	config, err := clientcmd.LoadFromFile(s.cluster.Kubeconfig)
	if err != nil {
		return err
	}
	config.Contexts[config.CurrentContext].Namespace = namespace
	return clientcmd.WriteToFile(*config, s.place.kubeconfig())
}

func (s *story) writeManifests() error {
	folders, err := userFiles.ReadDir(".")
	if err != nil {
		return err
	}
	// CopyFS does not overwrite.
	for _, folder := range folders {
		if err := os.RemoveAll(filepath.Join(s.place.dir, folder.Name())); err != nil {
			return err
		}
	}
	return os.CopyFS(s.place.dir, userFiles)
}

func (s *story) installAll(ctx context.Context) error {
	pid, err := s.place.stop(ctx)
	if err != nil {
		return err
	}
	if pid != 0 {
		s.out.note("  stopped the confrev of an earlier demo (pid %d)", pid)
	}
	if s.addresses, err = freeAddresses(); err != nil {
		return err
	}
	_, port, err := net.SplitHostPort(s.addresses[2])
	if err != nil {
		return err
	}
	s.cluster.WebhookURL = "https://" + net.JoinHostPort(env.WebhookHost, port)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.cluster.Install(ctx) })
	group.Go(func() error { return s.freshNamespace(ctx) })
	group.Go(func() error { return s.listUnready(ctx, "none") })
	group.Go(func() (err error) {
		s.binary, err = s.cluster.Build(ctx, false)
		return err
	})
	return group.Wait()
}

// freshNamespace deletes the namespace with all that is in it, and makes it anew.
func (s *story) freshNamespace(ctx context.Context) error {
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		ns := &corev1.Namespace{}
		err := s.cluster.Client.Get(ctx, client.ObjectKey{Name: namespace}, ns)
		switch {
		case apierrors.IsNotFound(err):
			return s.cluster.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: ours}})
		case err != nil:
			return err
		case ns.Labels["app.kubernetes.io/managed-by"] != ours["app.kubernetes.io/managed-by"]:
			return fmt.Errorf("cluster %s has a namespace %q that is not the demo's: delete it, or choose another --name", s.place.name, namespace)
		case ns.DeletionTimestamp == nil:
			if err := s.cluster.Delete(ctx, ns); err != nil {
				return err
			}
		default:
			if err := s.release(ctx); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
	return fmt.Errorf("namespace %s is still being deleted after a minute", namespace)
}

// release takes confrev's finalizer from the ConfigMaps of the namespace, as whoever uninstalls confrev must: nobody else
// does while it does not run.
func (s *story) release(ctx context.Context) error {
	all := &corev1.ConfigMapList{}
	if err := s.cluster.Client.List(ctx, all, client.InNamespace(namespace)); err != nil {
		return err
	}
	for _, cm := range all.Items {
		if !controllerutil.ContainsFinalizer(&cm, keys.ProtectFinalizer) {
			continue
		}
		before := cm.DeepCopy()
		controllerutil.RemoveFinalizer(&cm, keys.ProtectFinalizer)
		if err := s.cluster.Client.Patch(ctx, &cm, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("take the finalizer from ConfigMap %s: %w", cm.Name, err)
		}
	}
	return nil
}

func (s *story) startConfrev(ctx context.Context, flags []string) error {
	if err := s.writeConfrevKubeconfig(ctx); err != nil {
		return err
	}
	// One log per demo.
	if err := forget(s.place.log()); err != nil {
		return err
	}
	s.confrev = newProcess(s.place, s.binary, env.Namespace, s.addresses, flags...)
	return errors.Join(s.confrev.start(ctx), s.cluster.WaitWebhook(ctx))
}

// tokenSeconds is 30 days: confrev goes on running after the demo.
const tokenSeconds = 30 * 24 * 3600

// writeConfrevKubeconfig writes a kubeconfig with a token of the chart's ServiceAccount.
func (s *story) writeConfrevKubeconfig(ctx context.Context) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(tokenSeconds))}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace, Name: "confrev"}}
	if err := s.cluster.Client.SubResource("token").Create(ctx, account, request); err != nil {
		return fmt.Errorf("get a token of the chart's ServiceAccount: %w", err)
	}
	config, err := clientcmd.LoadFromFile(s.cluster.Kubeconfig)
	if err != nil {
		return err
	}
	config.AuthInfos = map[string]*clientcmdapi.AuthInfo{"confrev": {Token: request.Status.Token}}
	config.Contexts[config.CurrentContext].AuthInfo = "confrev"
	return clientcmd.WriteToFile(*config, s.place.confrevKubeconfig())
}

// clusterLogs is where the control plane's logs are.
func (s *story) clusterLogs() string { return filepath.Dir(s.cluster.AuditLog) }

// tearDown stops confrev, and removes the cluster and the demo's folder.
func tearDown(ctx context.Context, p place) error {
	pid, err := p.stop(ctx)
	if err != nil {
		return err
	}
	if pid != 0 {
		fmt.Printf("confrev (pid %d) is stopped\n", pid)
	}
	if err := env.Down(ctx, p.name, os.Stdout); err != nil {
		return err
	}
	return os.RemoveAll(p.dir)
}
