package reconcile

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

// limited reads Deployments as the cache does: no more than asked for. The fake client does not care. It records how many each list had.
func limited(inner client.Client) (client.Client, *[]int) {
	read := &[]int{}
	return interceptor.NewClient(inner.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, inner client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			if err := inner.List(ctx, into, options...); err != nil {
				return err
			}
			if all, ok := into.(*appsv1.DeploymentList); ok {
				asked := &client.ListOptions{}
				asked.ApplyOptions(options)
				if asked.Limit > 0 {
					all.Items = all.Items[:min(len(all.Items), int(asked.Limit))]
				}
				*read = append(*read, len(all.Items))
			}
			return nil
		},
	}), read
}

// Rule 14: of a revision that thousands use, the anchor is the owner. To read all of them after each of their events would cost n² of n.
func TestARevisionOfManyIsNotCountedAtEachEvent(t *testing.T) {
	for name, test := range map[string]struct {
		users, ending int
		anchored      bool
		// read is how many Deployments each list of the first look has, again when the next look is.
		read  []int
		again time.Duration
	}{
		"many":                      {users: 80, anchored: true, read: []int{51}, again: time.Second},
		"some of them are ending":   {users: 80, ending: 3, anchored: true, read: []int{51, 80}, again: time.Second},
		"few may replace it":        {users: 50, anchored: true, read: []int{50}},
		"without it, all are owner": {users: 80, read: []int{80}},
	} {
		t.Run(name, func(t *testing.T) {
			made := gen.RevisionOfApp("v", "1")
			made.UID = "revision"
			if test.anchored {
				made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: revision.AnchorName, UID: "anchor"}}
			}
			objects := []client.Object{gen.App("v"), made}
			for i := range test.users {
				d := gen.Web("web:1", gen.Pinned(gen.PinOfApp("v", "1")))
				d.Name, d.UID = fmt.Sprintf("web-%02d", i), types.UID(fmt.Sprint("uid-", i))
				if i < test.ending {
					d.DeletionTimestamp, d.Finalizers = &metav1.Time{Time: time.Now()}, []string{"example.com/busy"}
				}
				objects = append(objects, d)
			}
			r, _, _ := newRevisions(t, objects...)
			now := time.Now()
			r.Now = func() time.Time { return now }
			r.Store = revision.NewStore(r.Client, r.Live, r.Client, r.Now, r.Kinds, 100)
			var read *[]int
			r.Client, read = limited(r.Client)
			look := func() (time.Duration, []int) {
				t.Helper()
				*read = nil
				result, err := r.Reconcile(t.Context(), revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: made.Name})
				if err != nil {
					t.Fatal(err)
				}
				return result.RequeueAfter, *read
			}
			_, first := look()
			if !slices.Equal(first, test.read) {
				t.Errorf("it read %v Deployments, want %v", first, test.read)
			}
			if test.again == 0 {
				return
			}
			now = now.Add(test.again / 4)
			if wait, second := look(); wait != test.again*3/4 || len(second) > 0 {
				t.Errorf("after the next event, it read %v Deployments, and looks again after %s", second, wait)
			}
			now = now.Add(test.again)
			if _, third := look(); !slices.Equal(third, test.read) {
				t.Errorf("later, it read %v Deployments, want %v", third, test.read)
			}
		})
	}
}

// A revision that many use is recreated at once, whenever it was looked at last.
func TestARevisionOfManyIsRestoredAtOnce(t *testing.T) {
	made := gen.RevisionOfApp("v", "1")
	made.UID = "revision"
	made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: revision.AnchorName, UID: "anchor"}}
	objects := []client.Object{gen.App("v"), made}
	for i := range enough {
		d := gen.Web("web:1", gen.Pinned(gen.PinOfApp("v", "1")))
		d.Name, d.UID = fmt.Sprint("web-", i), types.UID(fmt.Sprint("uid-", i))
		objects = append(objects, d)
	}
	r, _, _ := newRevisions(t, objects...)
	ref := revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: made.Name}
	look := func() {
		t.Helper()
		if _, err := r.Reconcile(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
	}
	look()
	if err := r.Client.Delete(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	look()
	if err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(made), revision.NewMetadata(pin.ConfigMap)); err != nil {
		t.Error(err)
	}
}
