package sink

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/test/gen"
)

// recorder writes down events: what each is about, and what it is related to.
type recorder struct{ events []string }

func (r *recorder) Eventf(regarding, related runtime.Object, kind, reason, action, format string, args ...any) {
	r.events = append(r.events, fmt.Sprintf("%s %s %s %s %s: "+format, append([]any{named(regarding), named(related), kind, reason, action}, args...)...))
}

func named(obj runtime.Object) string {
	switch o := obj.(type) {
	case nil:
		return "-"
	case *corev1.ObjectReference:
		return strings.Join([]string{o.APIVersion, o.Kind, o.Namespace, o.Name, o.FieldPath}, "/")
	case metav1.Object:
		return o.GetName()
	}
	return "?"
}

func TestEventsAreOnWhatTheyAreAbout(t *testing.T) {
	web, api := gen.Deployment("web"), gen.Deployment("api")
	app := revision.Metadata(revision.Ref{Kind: pin.ConfigMap, Namespace: "default", Name: "app"})
	source := gen.Source("configmap/app")
	tests := map[string]struct {
		notice notice.Notice
		want   []string
	}{
		"a pin": {
			notice.Notice{Reason: notice.Pinned, Normal: true, Object: web, Source: source, SourceObject: app, Text: "x"},
			[]string{"web app Normal Pinned Pin: x"},
		},
		"a pin of a source that is not there": {
			notice.Notice{Reason: notice.Pinned, Normal: true, Object: web, Source: source, Text: "x"},
			[]string{"web - Normal Pinned Pin: x"},
		},
		"a hold is one of both": {
			notice.Notice{Reason: notice.Held, Normal: true, Object: web, Kind: "deployment", Source: source, SourceObject: app, Text: "x"},
			[]string{"web app Normal Held Hold: x", "app web Normal Held Hold: deployment web: x"},
		},
		"a revision is one of the source": {
			notice.Notice{Reason: notice.RevisionCreated, Normal: true, Object: web, Source: source, SourceObject: app, Text: "x"},
			[]string{"app web Normal RevisionCreated CreateRevision: x"},
		},
		"a revision of what is absent is one of the workload": {
			notice.Notice{Reason: notice.RevisionCreated, Normal: true, Object: web, Source: source, Text: "x"},
			[]string{"web - Normal RevisionCreated CreateRevision: x"},
		},
		"a revision that a workload brought back": {
			notice.Notice{Reason: notice.RevisionRecreated, Normal: true, Object: web, Source: source, SourceObject: app, Text: "x"},
			[]string{"app web Normal RevisionRecreated RecreateRevision: x", "web app Normal RevisionRecreated RecreateRevision: x"},
		},
		"a revision that was brought back for several": {
			notice.Notice{Reason: notice.RevisionRecreated, Normal: true, Users: []notice.Object{web, api}, Source: source, SourceObject: app, Text: "x"},
			[]string{"app - Normal RevisionRecreated RecreateRevision: x", "web app Normal RevisionRecreated RecreateRevision: x", "api app Normal RevisionRecreated RecreateRevision: x"},
		},
		"a warning names its source, which need not exist": {
			notice.Notice{Reason: notice.KeyMissing, Object: web, Source: source, SourceObject: app, Keys: "a,b", Text: "x"},
			[]string{"web v1/ConfigMap/default/app/a,b Warning KeyMissing Plan: x"},
		},
		"a warning about several workloads": {
			notice.Notice{Reason: notice.RevisionMissing, Users: []notice.Object{web, api}, Source: source, Text: "x"},
			[]string{"web v1/ConfigMap/default/app/ Warning RevisionMissing RecreateRevision: x", "api v1/ConfigMap/default/app/ Warning RevisionMissing RecreateRevision: x"},
		},
		"a warning about an object that is no source": {
			notice.Notice{Reason: notice.SourceMissing, Object: web, Source: pin.Source{Kind: "certificates.cert-manager.io", Name: "tls"}, Text: "x"},
			[]string{"web /certificates.cert-manager.io/default/tls/ Warning SourceMissing Plan: x"},
		},
		"a condition that is meant to be": {
			notice.Notice{Reason: notice.Paused, Normal: true, Object: web, Text: "x"},
			[]string{"web - Normal Paused Plan: x"},
		},
		"a long text": {
			notice.Notice{Reason: notice.NoPodTemplate, Object: web, Text: strings.Repeat("x", 2000)},
			[]string{"web - Warning NoPodTemplate Plan: " + strings.Repeat("x", maxNote-len("…")) + "…"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := &recorder{}
			Events(r).Send(t.Context(), test.notice)
			if diff := cmp.Diff(test.want, r.events); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A revision that comes back is one, however many workloads use it, and only what is wrong is a warning.
func TestMetricsCountWhatHappened(t *testing.T) {
	for _, n := range []notice.Notice{
		{Reason: notice.RevisionRecreated, Normal: true, Users: []notice.Object{gen.Deployment("web"), gen.Deployment("api")}},
		{Reason: notice.Paused, Normal: true}, {Reason: notice.Reverted},
	} {
		Metrics().Send(t.Context(), n)
	}
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				got[family.GetName()+" "+label.GetValue()] += metric.GetCounter().GetValue()
			}
			got[family.GetName()] += metric.GetCounter().GetValue()
		}
	}
	if got["confrev_revisions_recreated_total"] != 1 || got["confrev_warnings_total"]-got["confrev_warnings_total "+eventsDropped] != 1 || got["confrev_warnings_total Reverted"] != 1 {
		t.Errorf("counted %v", got)
	}
}

// Rule 19.
func TestTheLogHasNoTexts(t *testing.T) {
	var out bytes.Buffer
	ctx := log.IntoContext(context.Background(), logr.FromSlogHandler(slog.NewTextHandler(&out, nil)))
	Log().Send(ctx, notice.Notice{Reason: notice.Held, Object: gen.Deployment("web"), Kind: "deployment", Source: gen.Source("configmap/app"), Text: "canary"})
	Log().Send(ctx, notice.Notice{Reason: notice.KeyMissing, Object: gen.Deployment("web"), Text: "canary"})
	if got := out.String(); strings.Count(got, "\n") != 1 || strings.Contains(got, "canary") ||
		!strings.Contains(got, "msg=held kind=deployment namespace=default name=web source=configmap/app\n") {
		t.Errorf("the log has\n%s", got)
	}
}

// The counters that alerts ask for exist before the first warning.
func TestCountersOfAlertsBeginAtZero(t *testing.T) {
	alerts, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "confrev", "files", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	Metrics()
	families, err := metrics.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]bool{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				counted[family.GetName()+" "+label.GetName()+" "+label.GetValue()] = true
			}
		}
	}
	asked := regexp.MustCompile(`confrev_warnings_total\{reason="(\w+)"\}`).FindAllStringSubmatch(string(alerts), -1)
	if len(asked) == 0 {
		t.Fatal("no alert asks for warnings: this test reads them wrongly")
	}
	for _, match := range asked {
		if !counted["confrev_warnings_total reason "+match[1]] {
			t.Errorf("%s is not counted before its first warning", match[1])
		}
	}
}
