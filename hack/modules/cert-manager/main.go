// Command cert-manager runs those of cert-manager's own controllers that confrev's chart needs: the ones that issue and renew a
// Certificate from a self-signed or a CA Issuer, and the one that injects authorities into webhook configurations. cert-manager's
// own commands are in modules without versions, so this one assembles the controllers as they do. It finds the cluster by
// KUBECONFIG, has no webhook, and runs until it is terminated.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	cmscheme "github.com/cert-manager/cert-manager/pkg/client/clientset/versioned/scheme"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	"github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	"github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	"github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"         // registers itself
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned" // registers itself
	"github.com/cert-manager/cert-manager/pkg/util"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// controllers are those that issue and renew. cert-manager's others are for ACME, Ingresses and its own approvals.
var controllers = []string{
	issuers.ControllerName, trigger.ControllerName, keymanager.ControllerName, requestmanager.ControllerName, issuing.ControllerName,
	readiness.ControllerName, revisionmanager.ControllerName, approver.ControllerName, ca.CRControllerName, selfsigned.CRControllerName,
}

func main() {
	ctrl.SetLogger(klog.Background())
	if err := run(os.Getenv("KUBECONFIG")); err != nil {
		fmt.Fprintln(os.Stderr, "cert-manager:", err)
		os.Exit(1)
	}
}

// run runs everything until this process is terminated or a part of it fails.
func run(kubeconfig string) error {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	manager, err := injector(ctx, kubeconfig)
	if err != nil {
		return err
	}
	parts := []func() error{func() error { return manager.Start(ctx) }}
	issuing, err := issuance(ctx, kubeconfig)
	if err != nil {
		return err
	}
	parts = append(parts, issuing...)
	errs := make([]error, len(parts))
	var wait sync.WaitGroup
	for i, part := range parts {
		wait.Go(func() {
			defer cancel()
			errs[i] = part()
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

// issuance returns the controllers that issue, and starts their informers.
func issuance(ctx context.Context, kubeconfig string) ([]func() error, error) {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		Kubeconfig:    kubeconfig,
		IssuerOptions: controller.IssuerOptions{ClusterResourceNamespace: "kube-system"},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour, CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return nil, err
	}
	var parts []func() error
	for _, name := range controllers {
		make, known := controller.Known()[name]
		if !known {
			return nil, fmt.Errorf("cert-manager has no controller %q", name)
		}
		made, err := make(factory)
		if err != nil {
			return nil, fmt.Errorf("make controller %s: %w", name, err)
		}
		parts = append(parts, func() error { return made.Run(1, ctx) })
	}
	shared, err := factory.Build()
	if err != nil {
		return nil, err
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return parts, nil
}

// injector injects authorities into webhook configurations.
func injector(ctx context.Context, kubeconfig string) (ctrl.Manager, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), cmscheme.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	// It is named, as the manager of the fields that it writes.
	manager, err := ctrl.NewManager(util.RestConfigWithUserAgent(config, "cainjector"), ctrl.Options{
		Scheme: scheme, Metrics: server.Options{BindAddress: "0"},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
	})
	if err != nil {
		return nil, err
	}
	return manager, cainjector.RegisterAllInjectors(ctx, manager, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor:        map[string]bool{cainjector.MutatingWebhookConfigurationName: true},
	})
}
