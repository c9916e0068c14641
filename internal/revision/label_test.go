package revision

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/test/gen"
)

// A tool that keeps taking the label of a source away is left alone, as one is that keeps reverting templates.
func TestALabelThatOthersRemoveIsGivenUp(t *testing.T) {
	for name, test := range map[string]struct {
		every time.Duration
		want  int
	}{
		"right away":      {time.Second, plan.MaxReverts},
		"now and then":    {2 * time.Minute, 20},
		"once in an hour": {time.Hour, 20},
	} {
		t.Run(name, func(t *testing.T) {
			source := gen.ConfigMap("app", map[string]string{"k": "v"})
			c := fake.NewClientBuilder().WithObjects(source).Build()
			at := &clock{time.Unix(1_800_000_000, 0)}
			s := NewStore(c, c, c, at.now, nil, 100)
			written := 0
			for range 20 {
				if err := s.Label(t.Context(), Ref{pin.ConfigMap, source.Namespace, source.Name}); err != nil {
					t.Fatal(err)
				}
				now := &corev1.ConfigMap{}
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(source), now); err != nil {
					t.Fatal(err)
				}
				if now.Labels[keys.Source] != "" {
					written++
				}
				// Some tool brings back its manifest, with something of its own.
				now.Labels = map[string]string{"at": at.at.Format("150405")}
				if err := c.Update(t.Context(), now); err != nil {
					t.Fatal(err)
				}
				at.at = at.at.Add(test.every)
			}
			if written != test.want {
				t.Errorf("the label was written %d times, want %d", written, test.want)
			}
		})
	}
}

// The policy that confines confrev's own account takes such a source for a revision, and would refuse to have it labelled. Nor is one
// labelled that got these marks after the cache saw it.
func TestASourceWithTheMarksOfARevisionIsNotLabelled(t *testing.T) {
	plain := gen.ConfigMap("app", map[string]string{"k": "v"})
	marked := plain.DeepCopy()
	marked.Labels = map[string]string{keys.Content: "anything"}
	marked.Annotations = map[string]string{keys.SourceName: "app"}
	for name, cached := range map[string]*corev1.ConfigMap{"as the cache shows it": marked, "since the cache saw it": plain} {
		t.Run(name, func(t *testing.T) {
			cache := fake.NewClientBuilder().WithObjects(cached.DeepCopy()).Build()
			c := fake.NewClientBuilder().WithObjects(plain.DeepCopy()).Build()
			now := marked.DeepCopy()
			if err := c.Update(t.Context(), now); err != nil {
				t.Fatal(err)
			}
			s := NewStore(cache, c, c, time.Now, nil, 100)
			err := s.Label(t.Context(), Ref{pin.ConfigMap, plain.Namespace, plain.Name})
			if want := cached == plain; IsChanged(err) != want || err != nil && !want {
				t.Errorf("got the error %v", err)
			}
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil {
				t.Fatal(err)
			}
			if got := now.Labels[keys.Source]; got != "" {
				t.Errorf("the source got the label %q", got)
			}
		})
	}
}
