package revision

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/test/gen"
)

// Rules 12 and 40: the write that notes a decision keeps the note from being deleted with the workloads that the decision is about. A note that
// cannot be kept so is written anyway.
func TestANoteMayOutlastTheUsersOfItsRevision(t *testing.T) {
	deployment := Owner{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "2"}
	other := Owner{APIVersion: "v1", Kind: "Other", Name: "other", UID: "9"}
	anchor := Owner{APIVersion: "v1", Kind: "ConfigMap", Name: AnchorName, UID: "uid-of-anchor"}
	forged := ownedBy(deployment)
	forged.Data["k"] = "w"
	for name, test := range map[string]struct {
		revision client.Object
		outlasts bool
		anchor   client.Object
		want     []string
	}{
		"it need not":                    {revision: ownedBy(deployment), anchor: anchorObject(map[string]string{keys.Anchor: "true"}), want: []string{"web"}},
		"it does":                        {revision: ownedBy(other, deployment), outlasts: true, anchor: anchorObject(map[string]string{keys.Anchor: "true"}), want: []string{"other", AnchorName}},
		"without any owner":              {revision: ownedBy(), outlasts: true, anchor: anchorObject(map[string]string{keys.Anchor: "true"}), want: []string{AnchorName}},
		"the anchor owns it already":     {revision: ownedBy(anchor), outlasts: true, anchor: anchorObject(map[string]string{keys.Anchor: "true"}), want: []string{AnchorName}},
		"there is no anchor yet":         {revision: ownedBy(deployment), outlasts: true, want: []string{AnchorName}},
		"something else has its name":    {revision: ownedBy(deployment), outlasts: true, anchor: anchorObject(nil), want: []string{"web"}},
		"its name is not of its content": {revision: forged, outlasts: true, anchor: anchorObject(map[string]string{keys.Anchor: "true"}), want: []string{"web"}},
	} {
		t.Run(name, func(t *testing.T) {
			objects := []client.Object{test.revision.DeepCopyObject().(client.Object)}
			if test.anchor != nil {
				objects = append(objects, test.anchor)
			}
			store, c, sent := storeOf(t, objects...)
			if err := store.SetPropagation(t.Context(), Ref{pin.ConfigMap, gen.Namespace, appX}, "noted", test.outlasts); err != nil {
				t.Fatal(err)
			}
			meta := metadataOf(t, c)
			if diff := cmp.Diff(test.want, ownerNames(meta)); diff != "" {
				t.Errorf("owners (-want +got):\n%s", diff)
			}
			if meta.Annotations[keys.Propagation] != "noted" || len(*sent) != 1 {
				t.Errorf("sent %q", *sent)
			}
		})
	}
}
