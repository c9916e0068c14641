package change

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

func says(err error, want string) bool {
	if want == "" || err == nil {
		return want == "" && err == nil
	}
	return strings.Contains(err.Error(), want)
}

func web(track string) session.Target {
	return session.Target{Kind: workload.Deployment, Object: gen.Deployment("web", gen.Tracking(track))}
}

func TestTrackEditsTheList(t *testing.T) {
	many := "secret/s-0"
	for i := range 199 {
		many += fmt.Sprintf(",secret/s-%d", i+1)
	}
	tests := map[string]struct {
		edit    edit
		before  string
		sources []string
		want    string
		err     string
	}{
		"all":                     {addTracked, "configmap/app", nil, "all", ""},
		"the first":               {addTracked, "", []string{"cm/app"}, "configmap/app", ""},
		"one after none":          {addTracked, "none", []string{"configmap/app"}, "configmap/app", ""},
		"one and another, sorted": {addTracked, "secret/db", []string{"configmap/app"}, "configmap/app,secret/db", ""},
		"one that is there":       {addTracked, "configmap/app", []string{"configmap/app"}, "configmap/app", ""},
		"one of all":              {addTracked, "all", []string{"configmap/app"}, "all", ""},
		"one and a malformed one": {addTracked, "app", []string{"configmap/app"}, "", "malformed"},
		"one too many":            {addTracked, many, []string{"configmap/app"}, "", "would be invalid"},
		"out, altogether":         {dropTracked, "all", nil, "none", ""},
		"one out":                 {dropTracked, "configmap/app, secret/db", []string{"secret/db"}, "configmap/app", ""},
		"the last out":            {dropTracked, "configmap/app", []string{"configmap/app"}, "none", ""},
		"one out of all":          {dropTracked, "all", []string{"configmap/app"}, "", "list the others, kubectl annotate deployment/web confrev.io/track=none --overwrite -n default; or keep configmap/app from being pinned anywhere: kubectl annotate configmap/app confrev.io/policy=live -n default"},
		"one out that is not in":  {dropTracked, "configmap/app", []string{"secret/db"}, "", "does not list secret/db"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			sources, err := session.ParseSources(tt.sources)
			if err != nil {
				t.Fatal(err)
			}
			track, _ := optin.ParseTrack(tt.before)
			got, err := tt.edit(web(tt.before), tt.before, track, sources)
			if got != tt.want || !says(err, tt.err) {
				t.Errorf("got %q, %v; want %q, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

func TestToCurrentMovesWhatTheVerbIsFor(t *testing.T) {
	from, current := pin.Pin{Revision: "app-a", Number: 1}, pin.Pin{Revision: "app-b", Number: 2}
	app := gen.Source("configmap/app")
	look := rollout.Assessment{Follows: true, Pins: plan.Plan{Decisions: []plan.Decision{
		{Source: app, Verdict: plan.Held, From: from, To: from, Current: current},
		{Source: gen.Source("configmap/slow"), Verdict: plan.Waiting, From: from, To: from, Current: current},
	}}}
	got, err := toCurrent(web("all"), look, nil, []plan.Verdict{plan.Held})
	if err != nil || len(got.decisions) != 1 || got.decisions[0].Source != app || got.decisions[0].To != current {
		t.Errorf("got %+v, %v", got, err)
	}
	if len(got.why) != 1 || !strings.Contains(got.why[0], "kubectl confrev advance deployment/web") {
		t.Errorf("of the other it says %q", got.why)
	}
	if _, err := toCurrent(web("all"), look, []pin.Source{gen.Source("secret/db")}, nil); !says(err, "does not refer to secret/db") {
		t.Error(err)
	}
}

func TestAddAndRemoveVolumes(t *testing.T) {
	spec := &corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}
	request := volumeRequest{kind: "configmap", configMap: "my.app", mountPath: "/etc/app", containers: []string{"b"}}
	volume, err := request.volume()
	if err != nil || volume.Name != "my-app" {
		t.Fatalf("got %v, %v", volume, err)
	}
	mount := corev1.VolumeMount{Name: "my-app", MountPath: "/etc/app"}
	ops, err := request.add(spec)
	want := []jsonpatch.Operation{{Operation: "add", Path: "/volumes", Value: []corev1.Volume{volume}},
		{Operation: "add", Path: "/containers/1/volumeMounts", Value: []corev1.VolumeMount{mount}}}
	if diff := cmp.Diff(want, ops); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	spec.Volumes, spec.Containers[1].VolumeMounts = []corev1.Volume{volume}, []corev1.VolumeMount{mount}
	if ops, err := request.add(spec); len(ops) > 0 || err != nil {
		t.Errorf("again it gives %v, %v", ops, err)
	}
	other := request
	other.name, other.configMap = "my-app", "else"
	if _, err := other.add(spec); !says(err, "volume my-app is configmap/my.app already") {
		t.Error(err)
	}
	other.name = "else"
	if _, err := other.add(spec); !says(err, "container b has volume my-app mounted at /etc/app already") {
		t.Error(err)
	}
	ops, err = removeVolume(spec, "my-app")
	want = []jsonpatch.Operation{{Operation: "remove", Path: "/volumes/0"}, {Operation: "remove", Path: "/containers/1/volumeMounts/0"}}
	if diff := cmp.Diff(want, ops); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// After a concurrent change, the decision is made again, a few times; after other errors, it is not.
func TestUntilUnchanged(t *testing.T) {
	conflict := apierrors.NewConflict(schema.GroupResource{Resource: "deployments"}, "web", nil)
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		fails []error
		want  error
		says  string
		times int
	}{
		"no change":         {nil, nil, "", 1},
		"changes":           {[]error{conflict, conflict, conflict, conflict}, nil, "", 5},
		"change after that": {slices.Repeat([]error{conflict}, 9), conflict, "keeps changing, so nothing was done", 7},
		"another error":     {[]error{broken, broken}, broken, "broken", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				times := 0
				err := untilUnchanged(func() error {
					times++
					if times > len(test.fails) {
						return nil
					}
					return test.fails[times-1]
				})
				if !errors.Is(err, test.want) || !says(err, test.says) || times != test.times {
					t.Errorf("%d times, %v", times, err)
				}
			})
		})
	}
}
