package collect

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/audit"
	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/metadata"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/snapshot"
)

var (
	namespaceKind      = corev1.SchemeGroupVersion.WithKind("Namespace")
	serviceAccountKind = corev1.SchemeGroupVersion.WithKind("ServiceAccount")
	ingressKind        = networkingv1.SchemeGroupVersion.WithKind("Ingress")
)

// lists reads what an audit needs, with all LISTs at once, each in pages.
type lists struct {
	client.Reader
	Options
	audit.Snapshot

	mu         sync.Mutex
	found      []foundWorkload
	namespaces map[string]client.Object
	// refused has, by kind, why the user may not list it.
	refused map[schema.GroupVersionKind]error
}

// read lists everything.
func (l *lists) read(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	list := func(gvk schema.GroupVersionKind, newList func() client.ObjectList, take func(client.Object)) {
		group.Go(func() error { return l.list(ctx, gvk, newList, take) })
	}
	list(snapshot.Pod, func() client.ObjectList { return &corev1.PodList{} }, l.takePod)
	for _, kind := range pin.Kinds {
		gvk := revision.GVK(kind)
		list(gvk, func() client.ObjectList { return metadata.NewList(gvk) }, func(obj client.Object) { l.takeSource(kind, obj) })
	}
	listed := map[schema.GroupVersionKind]bool{}
	for _, kind := range l.Kinds {
		list(kind.GVK, kind.NewList, func(obj client.Object) { l.found = append(l.found, foundWorkload{kind, obj}) })
		if holder := kind.Holder; !listed[holder.GVK] {
			listed[holder.GVK] = true
			list(holder.GVK, holder.NewList, func(obj client.Object) { l.Holders = append(l.Holders, holderOf(holder, obj)) })
		}
	}
	list(serviceAccountKind, func() client.ObjectList { return &corev1.ServiceAccountList{} }, l.takeServiceAccount)
	list(ingressKind, func() client.ObjectList { return &networkingv1.IngressList{} }, l.takeIngress)
	group.Go(func() error { return l.readNamespaces(ctx) })
	return group.Wait()
}

// list lists a kind in pages, and takes each object. A kind that the API server does not serve has none.
func (l *lists) list(ctx context.Context, gvk schema.GroupVersionKind, newList func() client.ObjectList, take func(client.Object)) error {
	n := 0
	pages := pager.New(func(ctx context.Context, page metav1.ListOptions) (runtime.Object, error) {
		list := newList()
		return list, l.List(ctx, list, client.InNamespace(l.Namespace), client.Limit(page.Limit), client.Continue(page.Continue))
	})
	err := pages.EachListItem(ctx, metav1.ListOptions{}, func(item runtime.Object) error {
		obj, ok := item.(client.Object)
		if !ok {
			return fmt.Errorf("a list holds a %T, which is not an object of the API", item)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		take(obj)
		n++
		if l.Progress != nil {
			l.Progress(plural(gvk), n)
		}
		return nil
	})
	return l.expected(gvk, err)
}

// expected notes a refusal, and returns other errors except those of kinds that are not served.
func (l *lists) expected(gvk schema.GroupVersionKind, err error) error {
	switch {
	case apierrors.IsForbidden(err):
		l.mu.Lock()
		defer l.mu.Unlock()
		l.refused[gvk] = err
		return nil
	case meta.IsNoMatchError(err) || apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("list %s: %w", plural(gvk), err)
	}
	return nil
}

// readNamespaces reads the metadata of the one namespace, or of all.
func (l *lists) readNamespaces(ctx context.Context) error {
	take := func(obj client.Object) { l.namespaces[obj.GetName()] = obj }
	if l.Namespace == "" {
		return l.list(ctx, namespaceKind, func() client.ObjectList { return metadata.NewList(namespaceKind) }, take)
	}
	namespace := index.Namespace()
	err := l.Get(ctx, client.ObjectKey{Name: l.Namespace}, namespace)
	if err == nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		take(namespace)
	}
	return l.expected(namespaceKind, err)
}

func (l *lists) takePod(obj client.Object) {
	if pod, is := obj.(*corev1.Pod); is {
		l.Pods = append(l.Pods, audit.NewPod(pod))
	}
}

func (l *lists) takeSource(kind pin.Kind, obj client.Object) {
	if source, is := obj.(*metav1.PartialObjectMetadata); is {
		l.Sources = append(l.Sources, audit.NewSource(kind, source, revision.IsRevision(source)))
	}
}

func (l *lists) takeServiceAccount(obj client.Object) {
	account, is := obj.(*corev1.ServiceAccount)
	if !is {
		return
	}
	for _, secret := range account.Secrets {
		l.name(account.Namespace, secret.Name)
	}
	for _, secret := range account.ImagePullSecrets {
		l.name(account.Namespace, secret.Name)
	}
}

func (l *lists) takeIngress(obj client.Object) {
	if ingress, is := obj.(*networkingv1.Ingress); is {
		for _, tls := range ingress.Spec.TLS {
			l.name(ingress.Namespace, tls.SecretName)
		}
	}
}

// name notes that something names a Secret.
func (l *lists) name(namespace, secret string) {
	l.Named = append(l.Named, audit.Ref{Namespace: namespace, Source: pin.Source{Kind: pin.Secret, Name: secret}})
}
