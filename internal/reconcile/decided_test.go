package reconcile

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/fleet"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

// Rules 13 and 40: a revision that no one uses is kept for as long as it notes that its change is stopped, and only so long. One that is in use
// lasts longer than its users then.
func TestWhatIsDecidedByARevisionIsKept(t *testing.T) {
	const stopped = `{"revision":"uid","number":2,"wave":0,"stops":%d}`
	b := gen.NameOfRevision("b")
	for name, test := range map[string]struct {
		record, resume string
		// source is what it has now; empty if it does not exist.
		source string
		keeps  bool
	}{
		"stopped":                          {record: fmt.Sprintf(stopped, 1), source: "b", keeps: true},
		"stopped, and resumed":             {record: fmt.Sprintf(stopped, 1), source: "b", resume: b + "@2;stop=1"},
		"resumed, and stopped again":       {record: fmt.Sprintf(stopped, 2), source: "b", resume: b + "@2;stop=1", keeps: true},
		"another change was resumed":       {record: fmt.Sprintf(stopped, 1), source: "b", resume: b + "@1;stop=1", keeps: true},
		"the source has other content":     {record: fmt.Sprintf(stopped, 1), source: "c"},
		"the source does not exist":        {record: fmt.Sprintf(stopped, 1)},
		"the content was another's before": {record: `{"revision":"uid","number":1,"wave":0,"stops":1}`, source: "b"},
		"it was copied":                    {record: `{"revision":"other","number":2,"wave":0,"stops":1}`, source: "b"},
		"a wave has passed":                {record: `{"revision":"uid","number":2,"wave":1}`, source: "b"},
		"no one waits for what it vouches": {record: `{"revision":"uid","number":2,"wave":1,"complete":true}`, source: "b"},
		"nothing was decided":              {source: "b"},
	} {
		for _, used := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", used: ", used), func(t *testing.T) {
				made := gen.RevisionOfApp("b", "2")
				made.UID, made.Annotations[keys.Propagation] = "uid", test.record
				made.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: revision.AnchorName, UID: "anchor"}}
				objects := []client.Object{made}
				if test.source != "" {
					source := gen.App(test.source)
					source.Annotations = map[string]string{keys.Resume: test.resume}
					objects = append(objects, source)
				}
				if used {
					web := gen.Web("1", gen.Pinned("configmap/app="+b+"@2"))
					web.UID = "web"
					objects = append(objects, web)
				}
				r, _, _ := newRevisions(t, objects...)
				r.Fleet = fleet.New(r.Client, r.Now)
				// It was last about to be pinned long ago.
				r.Store.Sparing(0)
				if _, err := r.Reconcile(t.Context(), revision.Ref{Kind: pin.ConfigMap, Namespace: gen.Namespace, Name: made.Name}); err != nil {
					t.Fatal(err)
				}
				var left corev1.ConfigMap
				err := r.Client.Get(t.Context(), client.ObjectKeyFromObject(made), &left)
				if client.IgnoreNotFound(err) != nil || (err == nil) != (test.keeps || used) {
					t.Errorf("afterwards: %v", err)
				}
				anchored := slices.ContainsFunc(left.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Name == revision.AnchorName })
				if anchored != test.keeps {
					t.Errorf("owners %v", left.OwnerReferences)
				}
			})
		}
	}
}
