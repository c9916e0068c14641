package change

import (
	"bytes"
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/test/gen"
)

// A conflict keeps an edit that someone makes at the same time. The attempt after it must not overwrite that edit either.
func TestRestoreSourceKeepsConcurrentEdits(t *testing.T) {
	old := gen.ConfigMap("app-old", gen.Data("v", "old"))
	edited := func(data map[string]string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			source := gen.ConfigMap("app", nil)
			if err := c.Get(ctx, client.ObjectKeyFromObject(source), source); err != nil {
				return err
			}
			source.Data = data
			return errors.Join(c.Update(ctx, source), apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "app", nil))
		}
	}
	created := func(ctx context.Context, c client.Client) error {
		source := gen.ConfigMap("app", gen.Data("v", "theirs"))
		source.ResourceVersion = ""
		return errors.Join(c.Create(ctx, source), apierrors.NewAlreadyExists(schema.GroupResource{Resource: "configmaps"}, "app"))
	}
	for name, test := range map[string]struct {
		// absent is true if the source is gone at first; meanwhile is what someone else does before the first write.
		absent     bool
		meanwhile  func(context.Context, client.Client) error
		says, want string
	}{
		"nothing else happens":      {false, nil, "", "old"},
		"it is gone":                {true, nil, "", "old"},
		"only its metadata changes": {false, edited(gen.Data("v", "bad")), "", "old"},
		"its content changes":       {false, edited(gen.Data("v", "theirs")), "configmap/app has just been changed by someone else, so nothing was done: look at it, and run this again", "theirs"},
		"it is restored already":    {false, edited(gen.Data("v", "old")), "", "old"},
		"it is created":             {true, created, "configmap/app has just been changed by someone else", "theirs"},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme)
			if !test.absent {
				builder = builder.WithObjects(gen.ConfigMap("app", gen.Data("v", "bad")))
			}
			live := builder.Build()
			interrupted := func(ctx context.Context) (err error) {
				if test.meanwhile != nil {
					err = test.meanwhile(ctx, live)
					test.meanwhile = nil
				}
				return err
			}
			c := &session.Connection{WithWatch: interceptor.NewClient(live, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.CreateOption) error {
					if err := interrupted(ctx); err != nil {
						return err
					}
					return c.Create(ctx, obj, options...)
				},
				Update: func(ctx context.Context, c client.WithWatch, obj client.Object, options ...client.UpdateOption) error {
					if err := interrupted(ctx); err != nil {
						return err
					}
					return c.Update(ctx, obj, options...)
				},
			})}
			var out bytes.Buffer
			u := &undo{onWorkload: onWorkload{writing: writingTo(&out, "")}}
			d := plan.Decision{Source: gen.Source("configmap/app"), To: pin.Pin{Revision: "app-old", Number: 1}}
			if err := u.overwriteUnlessEdited(t.Context(), c, gen.Namespace, d, old); !says(err, test.says) {
				t.Errorf("it says %v", err)
			}
			var got corev1.ConfigMap
			if err := live.Get(t.Context(), client.ObjectKey{Namespace: gen.Namespace, Name: "app"}, &got); err != nil || got.Data["v"] != test.want {
				t.Errorf("the source has %v, %v", got.Data, err)
			}
		})
	}
}

// Content that a workload does not have yet, or no longer wants, is not what to go back from: the workload still has what is to be restored.
func TestWhatIsToBeRestored(t *testing.T) {
	app := gen.Source("configmap/app")
	pins := map[int64]pin.Pin{1: {Revision: "app-a", Number: 1}, 2: {Revision: "app-b", Number: 2}}
	for name, test := range map[string]struct {
		verdict plan.Verdict
		on      int64
		number  int64
		want    int64
		err     string
	}{
		"the source has what it has":      {plan.InSync, 2, 0, 0, "no revision of configmap/app before 2"},
		"it is about to advance":          {plan.Advanced, 2, 0, 2, ""},
		"it is about to, from the first":  {plan.Advanced, 1, 0, 1, ""},
		"it waits":                        {plan.Waiting, 2, 0, 2, ""},
		"a key is missing":                {plan.KeyMissing, 2, 0, 2, ""},
		"it is held":                      {plan.Held, 1, 0, 1, ""},
		"the source is gone":              {plan.SourceMissing, 2, 0, 2, ""},
		"a revision that is named":        {plan.Advanced, 2, 1, 1, ""},
		"a revision that is named, again": {plan.Advanced, 2, 2, 2, ""},
	} {
		t.Run(name, func(t *testing.T) {
			look := rollout.Assessment{Follows: true, Template: pin.Set{app: pins[test.on]},
				Pins:    plan.Plan{Decisions: []plan.Decision{{Source: app, Verdict: test.verdict, From: pins[test.on]}}},
				Sources: map[pin.Source]revision.Observation{app: {Source: plan.Source{Revisions: []plan.Revision{{Name: "app-a", Number: 1}, {Name: "app-b", Number: 2}}}}}}
			got, err := toRestore(web("all"), look, nil, test.number)
			if !says(err, test.err) || err == nil && got.To != pins[test.want] {
				t.Errorf("got %v, %v", got.To, err)
			}
		})
	}
}
