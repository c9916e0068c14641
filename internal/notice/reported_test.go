package notice

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"confrev.io/confrev/test/gen"
)

func TestConditionIsReportedOnce(t *testing.T) {
	lacksA, lacksB := Notice{Reason: "KeyMissing", Text: "lacks a"}, Notice{Reason: "KeyMissing", Text: "lacks b"}
	missing := Notice{Reason: "SourceMissing", Text: "app is missing"}
	aboutA, aboutB := lacksA, lacksB
	aboutA.Source, aboutB.Source = gen.Source("configmap/a"), gen.Source("configmap/b")
	keyA, keyB := aboutA, aboutA
	keyA.Keys, keyB.Keys, keyB.Text = "a", "b", "lacks b"
	tests := map[string]struct {
		rounds [][]Notice
		want   []Notice // of the last round
	}{
		"a new one":                        {[][]Notice{{missing}}, []Notice{missing}},
		"none":                             {[][]Notice{{}}, nil},
		"one that was reported before":     {[][]Notice{{missing}, {missing}}, nil},
		"one next to an old one":           {[][]Notice{{missing}, {missing, lacksA}}, []Notice{lacksA}},
		"one that went away and came back": {[][]Notice{{missing}, {}, {missing}}, []Notice{missing}},
		"one that is there twice":          {[][]Notice{{missing, missing}}, []Notice{missing}},
		"two of one reason are told as one, or the API server would keep only the first": {
			[][]Notice{{lacksA, missing, lacksB}}, []Notice{{Reason: "KeyMissing", Text: "lacks a; lacks b"}, missing},
		},
		"a second of one reason":           {[][]Notice{{lacksA}, {lacksA, lacksB}}, []Notice{lacksB}},
		"those that were told as one stay": {[][]Notice{{lacksA, lacksB}, {lacksB, lacksA}}, nil},
		"two of one reason about two sources are two": {
			[][]Notice{{aboutA, aboutB}}, []Notice{aboutA, aboutB},
		},
		"two of one reason about two keys are two": {
			[][]Notice{{keyA, keyB}}, []Notice{keyA, keyB},
		},
		"the same note for another reason":  {[][]Notice{{lacksA}, {lacksA, {Reason: "Other", Text: lacksA.Text}}}, []Notice{{Reason: "Other", Text: lacksA.Text}}},
		"one of two went away and the rest": {[][]Notice{{lacksA, lacksB}, {lacksA}}, nil},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var r Reported
			var got []Notice
			for _, round := range test.rounds {
				got = r.News(round)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
