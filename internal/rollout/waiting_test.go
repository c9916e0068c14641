package rollout

import (
	"strings"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// Rule 35: a user whose deploy does not include a change that is frozen is told so, and told nothing about a change that was never to be
// part of a deploy.
func TestADeployIsToldWhatWaits(t *testing.T) {
	pinned := gen.Pinned(gen.PinOfApp("a", "1"))
	for name, test := range map[string]struct {
		source, workload map[string]string
		says             string
	}{
		"nothing is said": {},
		"the source is frozen": {
			source: map[string]string{keys.FreezeUntil: "2999-01-01"},
			says: "configmap/app changed, and waits until 2999-01-01T00:00:00Z (annotation confrev.io/freeze-until of configmap/app); " +
				"to roll it out now: kubectl confrev advance deployment/web configmap/app -n default",
		},
		"the source waits for a person":   {source: map[string]string{keys.Advance: "manual"}},
		"the workload waits for a person": {workload: map[string]string{keys.Advance: "manual"}},
		"a typo in what waits for a person": {
			source: map[string]string{keys.Advance: "Manual"},
			says: `annotation confrev.io/advance of configmap/app: "Manual" is not known: want auto, on-deploy or manual; until it is corrected, nothing ` +
				"advances\nconfigmap/app changed, and waits until annotation confrev.io/advance of configmap/app is corrected, which cannot be read; " +
				"to roll it out now: kubectl confrev advance deployment/web configmap/app -n default",
		},
		"a typo": {
			source: map[string]string{keys.Window: "9-17"},
			says: `annotation confrev.io/window of configmap/app: "9-17" is not a window: want five fields of cron, a duration and a time zone, such as ` +
				`"0 9 * * 1-5 8h Europe/Berlin"; until it is corrected, nothing advances` + "\n" +
				"configmap/app changed, and waits until annotation confrev.io/window of configmap/app is corrected, which cannot be read; " +
				"to roll it out now: kubectl confrev advance deployment/web configmap/app -n default",
		},
	} {
		t.Run(name, func(t *testing.T) {
			source := gen.App("b")
			source.Annotations = test.source
			w := newAdmissionWorld(t, workload.Deployment, source)
			old := gen.Web("1", pinned)
			for key, value := range test.workload {
				gen.Annotated(key, value)(old)
			}
			served := w.serve(t, old)
			obj := gen.Web("2", pinned)
			obj.Annotations, obj.ResourceVersion = old.Annotations, served.GetResourceVersion()
			_, said, err := w.ask(t.Context(), obj, served, false)
			if err != nil {
				t.Fatal(err)
			}
			if text := noticeText(said); text != test.says {
				t.Errorf("says\n%s\nwant\n%s", strings.ReplaceAll(text, "\n", "\n  "), test.says)
			}
		})
	}
}
