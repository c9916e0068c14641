package fleet

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
)

// Rules 37 and 40: a number that was raised while the content stayed makes no other change of it. What is remembered stays, and so does what a person
// decided under the number before.
func TestARaisedNumberIsTheSameChange(t *testing.T) {
	c, s := &change{}, surveyed(0)
	c.begin(s)
	c.vouched["web"] = true
	s.Current.Number, s.Record = 1000, spread.Record{Number: 1000, Since: 2, Stops: 2}
	if c.begin(s); !c.vouched["web"] {
		t.Error("what is remembered is lost")
	}
	s.Meta = &metav1.PartialObjectMetadata{}
	for text, want := range map[string]int{"app-b@2;stop=1": 1, "app-b@1000;stop=2": 0, "app-b@1;stop=2": 2, "app-b@1001;stop=2": 2, "app-c@2;stop=2": 2} {
		if s.Meta.Annotations = map[string]string{keys.Resume: text}; s.Stops() != want {
			t.Errorf("%s leaves %d stops, want %d", text, s.Stops(), want)
		}
	}
	s.Record.Since = 0
	if c.begin(s); c.vouched["web"] {
		t.Error("once other content was there, something is remembered")
	}
}

// Rule 39: a person lets waves of one change pass, and not of another.
func TestWhichWavesAPersonLetPass(t *testing.T) {
	s := surveyed(0)
	s.Meta = &metav1.PartialObjectMetadata{}
	for text, want := range map[string]int{"": 0, "app-b@2;wave=3": 3, "app-b@2;wave=0": 0, "app-b@1;wave=3": 0, "app-c@2;wave=3": 0, "app-b@2": 0} {
		if s.Meta.Annotations = map[string]string{keys.Passed: text}; s.letPass() != want {
			t.Errorf("%q: up to wave %d, want %d", text, s.letPass(), want)
		}
	}
}

// Rule 40: the number may be raised between the look at the workloads and the one at the record.
func TestARecordThatWasCarriedOverMeanwhileCounts(t *testing.T) {
	s := surveyed(0)
	made := revision.Metadata(revision.Ref{Kind: pin.ConfigMap, Namespace: "x", Name: "app-b"})
	record := spread.Record{Revision: "mine", Number: 1000, Since: 2, Stops: 1}
	made.UID, made.Annotations = "mine", map[string]string{keys.Number: "1000", keys.Propagation: record.String()}
	reader := fake.NewClientBuilder().WithObjects(made).Build()
	asked := rollout.Spreading{Source: s.Source, Meta: &metav1.PartialObjectMetadata{}, To: s.Current}
	if why, _, err := (Stops{Client: reader}).Stopped(t.Context(), asked); err != nil || why.Reason == "" {
		t.Errorf("it is not stopped: %+v, %v", why, err)
	}
}
