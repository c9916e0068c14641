package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
)

func named(namespace, name string, finalizers ...string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers}
}

// Only confrev's finalizer is removed; one source that cannot be released does not keep the others; one that changes meanwhile is read again.
func TestReleaseSources(t *testing.T) {
	conflicts := 1
	c := fake.NewClientBuilder().WithObjects(
		&corev1.ConfigMap{ObjectMeta: named("a", "kept", keys.ProtectFinalizer, "example.com/other"), Data: map[string]string{"k": "v"}},
		&corev1.ConfigMap{ObjectMeta: named("a", "refused", keys.ProtectFinalizer)},
		&corev1.ConfigMap{ObjectMeta: named("b", "changing", keys.ProtectFinalizer)},
		&corev1.ConfigMap{ObjectMeta: named("b", "others", "example.com/other")},
		&corev1.Secret{ObjectMeta: named("b", "kept", keys.ProtectFinalizer)},
	).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
			switch {
			case obj.GetName() == "refused":
				return errors.New("another webhook says no")
			case obj.GetName() == "changing" && conflicts > 0:
				conflicts--
				return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, obj.GetName(), errors.New("it changed"))
			}
			return c.Patch(ctx, obj, patch, options...)
		},
	}).Build()
	finalizers := func(obj client.Object, namespace, name string) string {
		t.Helper()
		if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, obj); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(obj.GetFinalizers())
	}
	var out bytes.Buffer
	err := releaseSources(t.Context(), c, []pin.Kind{pin.ConfigMap}, nil, &out)
	if err == nil || !strings.Contains(err.Error(), "release configmap a/refused: another webhook says no") {
		t.Errorf("the refusal is not reported: %v", err)
	}
	for name, got := range map[string]string{
		"kept":     finalizers(&corev1.ConfigMap{}, "a", "kept"),
		"others":   finalizers(&corev1.ConfigMap{}, "b", "others"),
		"changing": finalizers(&corev1.ConfigMap{}, "b", "changing"),
		"Secrets":  finalizers(&corev1.Secret{}, "b", "kept"),
	} {
		want := map[string]string{"changing": "[]", "Secrets": "[" + keys.ProtectFinalizer + "]"}[name]
		if want == "" {
			want = "[example.com/other]"
		}
		if got != want {
			t.Errorf("%s: finalizers %s, want %s", name, got, want)
		}
	}
	if want := "released configmap/kept in namespace a\nreleased configmap/changing in namespace b\n"; out.String() != want {
		t.Errorf("it said\n%s", out.String())
	}
	if err := releaseSources(t.Context(), c, pin.Kinds, []string{"a", "c"}, &out); err == nil || finalizers(&corev1.Secret{}, "b", "kept") == "[]" {
		t.Errorf("in other namespaces: %v", err)
	}
	if err := releaseSources(t.Context(), c, pin.Kinds, []string{"a", "b"}, &out); err == nil || finalizers(&corev1.Secret{}, "b", "kept") != "[]" {
		t.Errorf("with Secrets: %v", err)
	}
}

// Someone who changes a source all the time cannot keep the others from being released: each is tried once before any is tried again, and no
// source indefinitely.
func TestASourceThatKeepsChanging(t *testing.T) {
	var tried []string
	c := fake.NewClientBuilder().WithObjects(
		&corev1.ConfigMap{ObjectMeta: named("a", "restless", keys.ProtectFinalizer)},
		&corev1.ConfigMap{ObjectMeta: named("b", "kept", keys.ProtectFinalizer)},
		&corev1.Secret{ObjectMeta: named("b", "kept", keys.ProtectFinalizer)},
	).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
			tried = append(tried, obj.GetName())
			if obj.GetName() == "restless" && len(tried) < 1000 {
				return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, obj.GetName(), errors.New("it changed"))
			}
			return c.Patch(ctx, obj, patch, options...)
		},
	}).Build()
	var out bytes.Buffer
	err := releaseSources(t.Context(), c, pin.Kinds, []string{"a", "b"}, &out)
	if err == nil || !strings.Contains(err.Error(), "release configmap a/restless: ") {
		t.Errorf("it is not reported: %v", err)
	}
	if len(tried) > 20 || !slices.Equal(tried[:3], []string{"restless", "kept", "kept"}) {
		t.Errorf("tried %d times: %q", len(tried), tried[:min(len(tried), 5)])
	}
	if want := "released configmap/kept in namespace b\nreleased secret/kept in namespace b\n"; out.String() != want {
		t.Errorf("it said\n%s", out.String())
	}
}
