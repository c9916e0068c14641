package reconcile

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
)

func TestMemoryIsOfOneObjectAndNotOfItsName(t *testing.T) {
	all := newMemories()
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	all.get(web, "1").generation = 5
	if got := all.get(web, "1").generation; got != 5 {
		t.Errorf("generation %d was remembered, want 5", got)
	}
	if got := all.get(web, "2"); got.generation != 0 || got.uid != "2" {
		t.Errorf("a new object of the same name has the memory of the old one: %+v", got)
	}
	all.get(web, "2").generation = 6
	all.forget(web)
	if got := all.get(web, "2").generation; got != 0 {
		t.Errorf("generation %d was not forgotten", got)
	}
}

func TestOptions(t *testing.T) {
	good := Options{
		Options: rollout.Options{Settle: time.Second, Namespace: "confrev"}, Grace: time.Minute, RevisionsPerHour: 1, RolloutsPerHour: 1, Workers: 1,
	}
	tests := map[string]struct {
		change func(*Options)
		want   string // part of the problem; "" for none
	}{
		"good ones":               {func(*Options) {}, ""},
		"no settling":             {func(o *Options) { o.Settle = 0 }, ""},
		"a negative settle time":  {func(o *Options) { o.Settle = -1 }, "--settle"},
		"a grace time too short":  {func(o *Options) { o.Grace = revision.PinWindow - 1 }, "--grace"},
		"the least grace time":    {func(o *Options) { o.Grace = revision.PinWindow }, ""},
		"no workers":              {func(o *Options) { o.Workers = 0 }, "--workers"},
		"no revisions at all":     {func(o *Options) { o.RevisionsPerHour = 0 }, "--revisions-per-hour"},
		"no rollouts at all":      {func(o *Options) { o.RolloutsPerHour = 0 }, "--rollouts-per-hour"},
		"a leader, and no place":  {func(o *Options) { o.LeaderElect, o.Namespace = true, "" }, "--namespace"},
		"no namespace of its own": {func(o *Options) { o.Namespace = "" }, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			options := good
			test.change(&options)
			err := options.Validate()
			if (err != nil) != (test.want != "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("Validate: %v, want %q", err, test.want)
			}
		})
	}
	// Rule 18.
	for namespace, want := range map[string]bool{"kube-system": true, "confrev": true, "default": false, "kube-public": false} {
		if got := good.Excluded(namespace); got != want {
			t.Errorf("excluded(%s) = %v", namespace, got)
		}
	}
}
