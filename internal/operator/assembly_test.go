package operator

import (
	"context"
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"confrev.io/confrev/internal/index"
	"confrev.io/confrev/internal/workload"
)

// indexer notes what is indexed, and fails once at a field.
type indexer struct {
	ctrl.Manager
	made  map[string]int
	fails string
}

func (i *indexer) GetFieldIndexer() client.FieldIndexer { return i }

func (i *indexer) IndexField(_ context.Context, obj client.Object, field string, _ client.IndexerFunc) error {
	if field == i.fails {
		i.fails = ""
		return errors.New("not now")
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	if gvk.Empty() {
		gvks, _, err := fake.NewClientBuilder().Build().Scheme().ObjectKinds(obj)
		if err != nil {
			return err
		}
		gvk = gvks[0]
	}
	i.made[gvk.Kind+" "+field]++
	return nil
}

// An index can be made once only: a second try, or a second kind that shares a holder, makes those that are missing.
func TestIndexesAreMadeOnce(t *testing.T) {
	made := &indexer{made: map[string]int{}, fails: index.ByReference}
	a := &assembly{manager: made, indexed: map[string]bool{}}
	if err := a.index(t.Context(), workload.Deployment); err == nil {
		t.Error("a failure was not told")
	}
	for _, kind := range []workload.Kind{workload.Deployment, workload.Rollout, workload.StatefulSet, workload.DaemonSet} {
		if err := a.index(t.Context(), kind); err != nil {
			t.Fatal(err)
		}
	}
	want := map[string]int{}
	for _, kind := range []string{"Deployment", "Rollout", "StatefulSet", "DaemonSet"} {
		maps.Copy(want, map[string]int{kind + " " + index.BySource: 1, kind + " " + index.ByTrigger: 1, kind + " " + index.ByPin: 1, kind + " " + index.ByReferred: 1})
	}
	for _, kind := range []string{"ReplicaSet", "ControllerRevision"} {
		maps.Copy(want, map[string]int{kind + " " + index.ByPin: 1, kind + " " + index.ByReference: 1, kind + " " + index.ByController: 1})
	}
	if !maps.Equal(want, made.made) {
		t.Errorf("made %v, want %v", made.made, want)
	}
}

// A kind is spoken of when it becomes known that it is missing, and when it comes; not at every look.
func TestWhatBecomesOfAKindIsLoggedOnce(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{})
	ctx := log.IntoContext(t.Context(), logger)
	a := &assembly{problems: map[schema.GroupVersionKind]string{}}
	for _, problem := range []string{"", "not served", "not served", "", ""} {
		a.report(ctx, workload.Rollout, problem)
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "not handled for now") || !strings.Contains(lines[0], "not served") ||
		!strings.Contains(lines[1], "handled from now on") || strings.Contains(lines[1], "because") {
		t.Errorf("logged %q", lines)
	}
}
