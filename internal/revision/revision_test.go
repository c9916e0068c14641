package revision

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// A revision has none of its source's labels, annotations, owners or finalizers, save the change cause: tools that manage
// the source would prune or adopt it (argo-cd#12812, flagger#744), and finalizers would keep it (rule 16).
func TestRevisionCopiesContentOnly(t *testing.T) {
	source := gen.ConfigMap("app", map[string]string{"k": "v"})
	source.BinaryData = map[string][]byte{"b": {0xff}}
	source.Labels = map[string]string{"app.kubernetes.io/instance": "argo"}
	source.Annotations = map[string]string{
		corev1.LastAppliedConfigAnnotation: "{}", "argocd.argoproj.io/tracking-id": "x", keys.ChangeCause: "fix timeout",
	}
	source.OwnerReferences = []metav1.OwnerReference{{Name: "web"}}
	source.Finalizers = []string{"example.com/keep"}
	seen := snapshotOf(source)

	name := content.RevisionName("app", seen.Hash, 0)
	got := object(source, seen, name, 3)
	immutable := true
	digests, _ := seen.Digests.Text()
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: gen.Namespace, Name: name,
			Labels: map[string]string{keys.Source: "app", keys.Content: string(seen.Hash)},
			Annotations: map[string]string{
				keys.SourceName: "app", keys.Number: "3", keys.SourceVersion: "configmap-app/1", keys.KeyDigests: digests,
				keys.ChangeCause: "fix timeout",
			},
		},
		Immutable: &immutable, Data: map[string]string{"k": "v"}, BinaryData: map[string][]byte{"b": {0xff}},
	}
	if diff := cmp.Diff(client.Object(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if snapshotOf(got).Hash != seen.Hash {
		t.Error("the copy has another hash than its source")
	}
	if !IsRevision(got) || IsRevision(source) || SourceOf(pin.ConfigMap, got) != gen.Source("configmap/app") {
		t.Error("which is the revision, and of what, is not told")
	}
}

func TestWhatARevisionSaysOfItselfIsReadBack(t *testing.T) {
	source := gen.ConfigMap(strings.Repeat("long-name.", 25)+"x", map[string]string{"k": "v"})
	seen := snapshotOf(source)
	revision := object(source, seen, "r", 42)
	Compact(revision) // As it is in the cache.
	got := Labelled(revision)
	if got.Name != "r" || got.Number != 42 || got.Hash != seen.Hash {
		t.Errorf("described as %+v", got)
	}
	if diff := cmp.Diff(seen.Digests, got.Digests); diff != "" {
		t.Errorf("digests (-want +got):\n%s", diff)
	}
	if SourceOf(pin.ConfigMap, revision).Name != source.Name {
		t.Error("the whole name of the source is lost")
	}
}

func TestWhatCannotBeReadOfARevisionIsUnknown(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		number      int64
		known       bool // the digests
	}{
		"nothing":                     {nil, 0, false},
		"a number that is none":       {map[string]string{keys.Number: "x"}, 0, false},
		"a negative number":           {map[string]string{keys.Number: "-3"}, 0, false},
		"a number beyond 64 bits":     {map[string]string{keys.Number: "99999999999999999999"}, 0, false},
		"digests that are none":       {map[string]string{keys.Number: "2", keys.KeyDigests: "oops"}, 2, false},
		"digests that are too long":   {map[string]string{keys.Number: "2", keys.KeyDigests: manyDigests(4000)}, 2, false},
		"digests of a source of none": {map[string]string{keys.Number: "2", keys.KeyDigests: ""}, 2, true},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Labelled(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: test.annotations}})
			if got.Number != test.number || (got.Digests != nil) != test.known {
				t.Errorf("number %d, digests of %d keys", got.Number, len(got.Digests))
			}
		})
	}
}

// manyDigests returns the digests of n keys, as anyone can write them. Those of 4,000 are more than confrev ever writes.
func manyDigests(n int) string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%04d=%s", i, strings.Repeat("a", 16))
	}
	return strings.Join(all, ",")
}

// The cache has all revisions that anyone claims to be some.
func TestCompactDropsDigestsThatAreTooLong(t *testing.T) {
	for n, kept := range map[int]bool{0: true, 2000: true, 4000: false} {
		meta := Metadata(Ref{Kind: pin.ConfigMap, Namespace: "default", Name: "app"})
		written := map[string]string{keys.Number: "1", keys.KeyDigests: manyDigests(n)}
		meta.Annotations = maps.Clone(written)
		Compact(meta)
		if text, ok := meta.Annotations[keys.KeyDigests]; ok != kept || text != "" && text != written[keys.KeyDigests] {
			t.Errorf("the digests of %d keys: %d bytes, %t", n, len(text), ok)
		}
		if meta.Annotations[keys.Number] != "1" {
			t.Errorf("%d keys: there is no number any more", n)
		}
	}
}

func TestIsRevision(t *testing.T) {
	forms := gen.RevisionForms()
	if len(forms) < 10 {
		t.Fatalf("only %d forms", len(forms))
	}
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			if got := IsRevision(form.ConfigMap); got != form.Is {
				t.Errorf("IsRevision = %v", got)
			}
			// Metadata does not show whether the data is immutable.
			meta := Metadata(Ref{pin.ConfigMap, gen.Namespace, form.ConfigMap.Name})
			meta.ObjectMeta = form.ConfigMap.ObjectMeta
			if got, want := IsRevision(meta), form.Is || form.Mutable; got != want {
				t.Errorf("IsRevision of its metadata = %v", got)
			}
			if got := IndexBySource(pin.ConfigMap)(form.ConfigMap); (len(got) == 1) != form.Is {
				t.Errorf("indexed by %v", got)
			}
		})
	}
}

func TestCompactKeepsConfrevsOwnKeysAndDropsTheRest(t *testing.T) {
	meta := Metadata(Ref{Kind: pin.ConfigMap, Namespace: "default", Name: "app"})
	meta.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}
	meta.Labels = map[string]string{"app": "web", keys.Source: "app", keys.Content: "v1-x"}
	meta.Annotations = map[string]string{
		corev1.LastAppliedConfigAnnotation: "{}", keys.SourceName: "app", keys.Number: "1", keys.KeyDigests: "", keys.SourceVersion: "u/1",
		keys.Renewed: "2026-01-01T00:00:00Z", keys.ChangeCause: "why",
	}
	meta.OwnerReferences = []metav1.OwnerReference{{UID: "1"}}
	Compact(meta)
	want := Metadata(Ref{Kind: pin.ConfigMap, Namespace: "default", Name: "app"})
	want.Labels = map[string]string{keys.Source: "app", keys.Content: "v1-x"}
	want.Annotations = map[string]string{
		keys.SourceName: "app", keys.Number: "1", keys.KeyDigests: "", keys.SourceVersion: "u/1", keys.Renewed: "2026-01-01T00:00:00Z",
	}
	want.OwnerReferences = []metav1.OwnerReference{{UID: "1"}}
	if diff := cmp.Diff(want, meta); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Rule 12: one is an owner by its UID, not by its name.
func TestMissingOwners(t *testing.T) {
	revision := Metadata(Ref{Kind: pin.ConfigMap, Name: "app-x"})
	revision.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-1", UID: "1"}, {Kind: "Other", Name: "o", UID: "9"}}
	owners := []Owner{{Name: "web-1", UID: "1"}, {Name: "web-1", UID: "2"}, {Name: "web-3", UID: "3"}}
	if diff := cmp.Diff(owners[1:], missingOwners(revision, owners)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if owners[0].UID != "1" || len(revision.OwnerReferences) != 2 {
		t.Error("what was given was changed")
	}
	if got := missingOwners(revision, owners[:1]); len(got) != 0 {
		t.Errorf("missing %v", got)
	}
}

func TestAnOwnerReferenceControlsAndBlocksNothing(t *testing.T) {
	no := false
	want := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "1", Controller: &no, BlockOwnerDeletion: &no}
	got := Owner{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "1"}.reference()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestIsChanged(t *testing.T) {
	for name, err := range map[string]error{
		"itself": NewChanged("x"), "wrapped": fmt.Errorf("y: %w", NewChanged("x")), "among others": errors.Join(errors.New("y"), NewChanged("x")),
	} {
		if !IsChanged(err) {
			t.Errorf("%s is not seen", name)
		}
	}
	if IsChanged(nil) || IsChanged(errors.New("x")) || IsChanged(&notice.TerminalError{}) {
		t.Error("another error is taken for it")
	}
}

// The API server returns no reason with what etcd refuses.
func TestTooBig(t *testing.T) {
	etcd := &apierrors.StatusError{ErrStatus: metav1.Status{Code: 500, Message: "etcdserver: request is too large"}}
	tests := map[string]struct {
		err  error
		want bool
	}{
		"no error":          {nil, false},
		"the API server's":  {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), true},
		"etcd's":            {etcd, true},
		"etcd's, wrapped":   {fmt.Errorf("patch: %w", etcd), true},
		"another of etcd's": {errors.New("etcdserver: leader changed"), false},
		"a refusal that only says so": {
			apierrors.NewForbidden(schema.GroupResource{}, "x", errors.New("etcdserver: request is too large")), false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := tooBig(tt.err); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// What the API server finds invalid is too big; what a policy or webhook of others refuses, with whatever reason, is refused; and what a webhook does not
// answer is tried again.
func TestWhyARevisionIsNotCreated(t *testing.T) {
	configMaps := schema.GroupResource{Resource: "configmaps"}
	denied := apierrors.NewForbidden(configMaps, "app-1", errors.New("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"))
	byDefault := apierrors.NewForbidden(configMaps, "app-1", errors.New("ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"))
	byDefault.ErrStatus.Reason = metav1.StatusReasonInvalid
	webhook := func(code int32, reason metav1.StatusReason, text string) error {
		return &apierrors.StatusError{ErrStatus: metav1.Status{Code: code, Reason: reason, Message: text}}
	}
	const said = `admission webhook "x.y" denied the request: no`
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"a policy":                        {denied, RevisionRefused},
		"a policy, without a reason":      {byDefault, RevisionRefused},
		"a webhook":                       {webhook(403, metav1.StatusReasonForbidden, said), RevisionRefused},
		"a webhook, without a reason":     {webhook(400, "", said), RevisionRefused},
		"a webhook, as invalid":           {webhook(422, metav1.StatusReasonInvalid, said), RevisionRefused},
		"a webhook, as too large":         {webhook(413, metav1.StatusReasonRequestEntityTooLarge, said), RevisionRefused},
		"a webhook that does not answer":  {webhook(500, metav1.StatusReasonInternalError, `failed calling webhook "x.y": timeout`), ""},
		"what the API server cannot hold": {apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "app-1", nil), TooBig},
		"a request that is too big":       {apierrors.NewRequestEntityTooLargeError("limit is 3145728"), TooBig},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
				Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return test.err },
			}).Build()
			err := NewStore(c, c, c, time.Now, appsKinds{}, 10).create(t.Context(), claiming(nameOfValue("a", 0), "a", "a"))
			reason := ""
			if terminal, ok := errors.AsType[*notice.TerminalError](err); ok {
				reason = terminal.Reason
			}
			if err == nil || reason != test.want {
				t.Errorf("%v, want the reason %q", err, test.want)
			}
		})
	}
}

// The names of writes are remembered by the thousands.
func TestNamesOfWritesAreShort(t *testing.T) {
	uid := func(i int) types.UID { return types.UID(fmt.Sprintf("00000000-0000-0000-0000-%012d", i)) }
	meta := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uid(0), ResourceVersion: "1234567890"}}
	var few, many []metav1.OwnerReference
	for i := range MaxOwners {
		many = append(many, Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: uid(i + 1)}.reference())
	}
	few = append(few, many[:MaxOwners-1]...)
	renewed := map[string]any{keys.Renewed: "2026-01-01T00:00:00Z"}
	names := map[string]bool{}
	for _, name := range []string{
		refreshFlight(meta, renewed, many), refreshFlight(meta, renewed, few), refreshFlight(meta, nil, many), refreshFlight(meta, nil, nil),
	} {
		names[name] = true
		if len(name) > 200 {
			t.Errorf("a name has %d bytes", len(name))
		}
	}
	if len(names) != 4 {
		t.Errorf("%d different names for 4 different writes", len(names))
	}
	copied := (&metav1.ObjectMeta{OwnerReferences: many}).DeepCopy()
	if again := refreshFlight(meta, maps.Clone(renewed), copied.OwnerReferences); !names[again] {
		t.Error("the same write has two names")
	}
}
