//go:build reliability

package reliability

import (
	"net/http"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/test/faults"
)

// Rule 32: what a workload says counts as soon as the API server has it, and not only once confrev's cache shows it: a patch that was decided before is
// refused. Only of a Deployment's annotations does the API server count the changes, as generations.
func TestAWorkloadIsNotPinnedAgainstWhatItSays(t *testing.T) {
	for name, tt := range map[string]struct {
		resource       string
		workload       client.Object
		say, takenBack []string
	}{
		"frozen":     {"statefulsets", statefulSet("web"), []string{"annotate", keys.FreezeUntil + "=2999-01-01T00:00:00Z"}, []string{"annotate", keys.FreezeUntil + "-"}},
		"opted out":  {"statefulsets", statefulSet("web"), []string{"annotate", keys.Track + "-"}, []string{"annotate", keys.Track + "=all"}},
		"labelled":   {"deployments", deployment("web"), []string{"label", keys.Advance + "=manual"}, []string{"label", keys.Advance + "-"}},
		"annotated":  {"deployments", deployment("web"), []string{"annotate", keys.Advance + "=manual"}, []string{"annotate", keys.Advance + "-"}},
		"other mode": {"statefulsets", statefulSet("web"), []string{"annotate", keys.Mode + "=attach"}, []string{"annotate", keys.Mode + "-"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := alone(t, "says-"+strings.ReplaceAll(name, " ", "-"), faults.Options{}, "--settle", "0s")
			w := newWorld(t)
			w.Create(configMap(source, "first"), tt.workload)
			w.waitPinned("first")
			w.Barrier()
			release := m.proxy.HoldBack(tt.resource)
			defer release()
			mark, err := cluster.AuditNow()
			w.Must(err)
			steer := func(args []string) {
				w.Kubectl(append([]string{args[0], strings.TrimSuffix(tt.resource, "s") + "/web"}, args[1:]...)...)
			}
			steer(tt.say)
			w.Edit(source, color, "second")
			w.Eventually("confrev tries to pin it", func() string {
				tried, err := cluster.ConfrevRequests(mark)
				w.Must(err)
				complaint := "it does not"
				for _, r := range tried {
					if r.Object.Namespace != w.NS || r.Verb != "patch" || r.Object.Resource != tt.resource {
						continue
					}
					if complaint = ""; r.Response.Code != http.StatusUnprocessableEntity {
						t.Fatalf("confrev wrote %s", r)
					}
				}
				return complaint
			})
			release()
			w.Barrier()
			for _, s := range w.subjects() {
				if got := w.pinned(s.template); got == "second" {
					t.Errorf("%s is pinned to %q", s, got)
				}
			}
			steer(tt.takenBack)
			w.waitPinned("second")
		})
	}
}
