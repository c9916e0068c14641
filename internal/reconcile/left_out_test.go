package reconcile

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// anchored returns a revision that the anchor owns, and the pins of a template that uses it.
func anchored(t *testing.T) (made *corev1.ConfigMap, pins string) {
	t.Helper()
	hash := content.FromConfigMap(gen.ConfigMap("app", map[string]string{"k": "v"})).Hash()
	made = gen.ConfigMap(content.RevisionName("app", hash, 0), map[string]string{"k": "v"})
	made.Labels = map[string]string{keys.Content: string(hash), keys.Source: "app"}
	made.Annotations = map[string]string{keys.SourceName: "app", keys.Number: "1"}
	made.Immutable, made.UID = new(true), "uid-of-revision"
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: revision.AnchorName, UID: "uid-of-anchor"}}
	return made, "configmap/app=" + made.Name + "@1"
}

// leavingOut returns a reconciler that handles no StatefulSets yet, and for which the API server refuses to list ControllerRevisions, if that is given.
func leavingOut(t *testing.T, refusal error, objects ...client.Object) *Revisions {
	t.Helper()
	r, _, _ := newRevisions(t, objects...)
	r.Kinds.Expect(workload.Standard()...)
	r.Store.Sparing(0)
	r.Live = interceptor.NewClient(r.Client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, is := list.(*appsv1.ControllerRevisionList); is && refusal != nil {
				return refusal
			}
			return c.List(ctx, list, options...)
		},
	})
	return r
}

// Rules 13 and 14: of a kind that is left out, caches show nothing. What its objects use is neither deleted nor taken from the anchor, nor is anything as long
// as confrev may not even list them.
func TestWhatKindsThatAreLeftOutUseStays(t *testing.T) {
	revised, pins := anchored(t)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: gen.Namespace, Name: "set"}}
	set.Spec.Template.Annotations = map[string]string{keys.Pins: pins}
	kept := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: gen.Namespace, Name: "set-1"}, Data: runtime.RawExtension{
		Raw: []byte(`{"spec":{"template":{"metadata":{"annotations":{"` + keys.Pins + `":"` + pins + `"}}}}}`)}}
	web := gen.Deployment("web", gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/app")), gen.Pinned(pins))
	web.UID = "uid-of-web"
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "", nil)
	absent := apierrors.NewNotFound(schema.GroupResource{Resource: "controllerrevisions"}, "")
	for name, test := range map[string]struct {
		objects []client.Object
		refusal error
		// want is what becomes of the revision.
		want string
	}{
		"nothing uses it": {nil, nil, "deleted"},
		"nothing uses it, and the kind is not served":  {nil, absent, "deleted"},
		"nothing shows that uses it":                   {nil, forbidden, "anchored"},
		"a workload uses it":                           {[]client.Object{set}, nil, "anchored"},
		"a workload uses it, and holders do not show":  {[]client.Object{set}, forbidden, "anchored"},
		"a holder uses it":                             {[]client.Object{kept}, nil, "anchored"},
		"one that shows uses it":                       {[]client.Object{web}, nil, "owned"},
		"one that shows uses it, and others may":       {[]client.Object{web}, forbidden, "anchored"},
		"one that shows uses it, and another workload": {[]client.Object{web, set}, nil, "anchored"},
		"one that shows uses it, and another's holder": {[]client.Object{web, kept}, nil, "anchored"},
	} {
		t.Run(name, func(t *testing.T) {
			r := leavingOut(t, test.refusal, append(test.objects, revised.DeepCopy())...)
			if _, err := r.Reconcile(t.Context(), revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: revised.Name}); err != nil {
				t.Fatal(err)
			}
			got := &corev1.ConfigMap{}
			err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(revised), got)
			became := "owned"
			switch {
			case apierrors.IsNotFound(err):
				became = "deleted"
			case err != nil:
				t.Fatal(err)
			case r.Store.Anchored(got):
				became = "anchored"
			}
			if became != test.want {
				t.Errorf("it is %s, want %s", became, test.want)
			}
		})
	}
}

// Rule 13: what is of a kind that is left out has not become an owner of what it uses, so that owners which have moved on do not tell of it.
func TestWhatKindsThatAreLeftOutUseStaysAlthoughItsOwnersHaveMovedOn(t *testing.T) {
	revised, pins := anchored(t)
	web := gen.Deployment("web", gen.Tracking("all"), gen.Template(gen.EnvFrom("configmap/app")), gen.Pinned("configmap/app=app-later@2"))
	web.UID = "uid-of-web"
	revised.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: web.Name, UID: web.UID}}
	set := func(container corev1.Container, pins string) *appsv1.StatefulSet {
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: gen.Namespace, Name: "set"}}
		set.Spec.Template.Annotations = map[string]string{keys.Pins: pins}
		set.Spec.Template.Spec.Containers = []corev1.Container{container}
		return set
	}
	names := corev1.Container{EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: revised.Name}}}}}
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "controllerrevisions"}, "", nil)
	for name, test := range map[string]struct {
		left    *appsv1.StatefulSet
		refusal error
		stays   bool
	}{
		"another pins it":           {set(corev1.Container{}, pins), nil, true},
		"another names it":          {set(names, ""), nil, true},
		"another's history may":     {set(corev1.Container{}, ""), forbidden, true},
		"others use something else": {set(corev1.Container{}, "configmap/app=app-later@2"), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := leavingOut(t, test.refusal, web, test.left, revised.DeepCopy())
			if _, err := r.Reconcile(t.Context(), revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: revised.Name}); err != nil {
				t.Fatal(err)
			}
			err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(revised), &corev1.ConfigMap{})
			if client.IgnoreNotFound(err) != nil || (err == nil) != test.stays {
				t.Errorf("it stays: %v, want %v (%v)", err == nil, test.stays, err)
			}
		})
	}
}
