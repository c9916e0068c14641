package plan_test

import (
	"testing"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
)

// Rule 22: a note is compared under the key that it states. One whose key is lost ends no hold; the note is written again with
// the present key.
func TestHoldIsComparedUnderItsOwnKey(t *testing.T) {
	const mine, other = "k1-aaaaaaa-", "k1-bbbbbbb-"
	of := func(letter string) string { return digests(letter).Sum(true, nil) }
	tests := map[string]struct {
		keys    string
		verdict plan.Verdict
	}{
		"the present key, the content that was rolled back": {mine + of("c"), plan.Held},
		"the present key, other content":                    {mine + of("k"), plan.Advanced},
		"no key, the content that was rolled back":          {of("b"), plan.Held},
		"no key, other content":                             {of("a"), plan.Advanced},
		"no key, what it would be with one":                 {of("c"), plan.Advanced},
		"another key":                                       {other + of("b"), plan.Held},
		"nothing":                                           {"", plan.Advanced},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			now := plan.Source{
				Present: true, Name: "app-k", Hash: "k1-aaaaaaa-b", Scheme: mine, Digests: digests("c"), PlainDigests: digests("b"),
				Revisions: []plan.Revision{{Name: "app-a", Number: 1, Hash: "k1-aaaaaaa-a", Digests: digests("k")}},
			}
			in := plan.Input{
				Uses: []podspec.Use{useAll}, Sources: map[pin.Source]plan.Source{app: now}, Pins: set("a@1"), Holders: holders("a@1"),
				Held: pin.Notes{app: {From: short("b@2"), On: short("a@1"), Keys: test.keys}},
			}
			got := plan.Make(in)
			if verdict := got.Decisions[0].Verdict; verdict != test.verdict {
				t.Errorf("%s, want %s", verdict, test.verdict)
			}
			if test.verdict == plan.Held && got.Held[app].Keys != mine+of("c") {
				t.Errorf("the note says %s then", got.Held[app].Keys)
			}
		})
	}
}
