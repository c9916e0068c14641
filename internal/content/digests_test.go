package content_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"confrev.io/confrev/internal/content"
)

func data(pairs ...string) content.Content {
	c := content.Content{Data: map[string][]byte{}}
	for i := 0; i < len(pairs); i += 2 {
		c.Data[pairs[i]] = []byte(pairs[i+1])
	}
	return c
}

func TestDigestsSurviveTheirText(t *testing.T) {
	key := rapid.StringMatching(`[-._a-zA-Z0-9]{1,20}`)
	rapid.Check(t, func(t *rapid.T) {
		c := content.Content{
			Data:       rapid.MapOfN(key, rapid.SliceOfN(rapid.Byte(), 0, 4), 0, 5).Draw(t, "data"),
			BinaryData: rapid.MapOfN(key, rapid.SliceOfN(rapid.Byte(), 0, 4), 0, 5).Draw(t, "binaryData"),
		}
		digests := c.Digests()
		text, ok := digests.Text()
		if !ok {
			t.Fatalf("the text of %d keys is too long", len(digests))
		}
		if again, _ := c.Digests().Text(); again != text {
			t.Fatalf("the text is %q, then %q", text, again)
		}
		got, err := content.ParseDigests(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(digests, got); diff != "" {
			t.Fatalf("after %q (-want +got):\n%s", text, diff)
		}
	})
}

func TestDigestsOfNoKeysAreKnown(t *testing.T) {
	text, ok := content.Content{}.Digests().Text()
	if text != "" || !ok {
		t.Errorf("Text = %q, %v", text, ok)
	}
	// Not nil: nil digests are unknown ones (plan.Revision).
	if got, err := content.ParseDigests(""); err != nil || got == nil || len(got) != 0 {
		t.Errorf("ParseDigests of it = %v, %v", got, err)
	}
}

func TestOversizedDigestsAreLeftOut(t *testing.T) {
	const entry = len("key-00000=") + 16 + len(",")
	many := func(n int) content.Digests {
		digests := content.Digests{}
		for i := range n {
			digests[fmt.Sprintf("key-%05d", i)] = strings.Repeat("a", 16)
		}
		return digests
	}
	fit := (64<<10 + 1) / entry
	if text, ok := many(fit).Text(); !ok || len(text) > 64<<10 {
		t.Errorf("%d keys, %d bytes: ok %v", fit, len(text), ok)
	}
	if text, ok := many(fit + 1).Text(); ok {
		t.Errorf("%d keys, %d bytes are ok", fit+1, len(text))
	}
	for size, want := range map[int]bool{64 << 10: true, 64<<10 + 1: false} {
		key := strings.Repeat("k", size-len("=")-16)
		text, ok := (content.Digests{key: strings.Repeat("a", 16)}).Text()
		if len(text) != size || ok != want {
			t.Errorf("%d bytes, want %d: ok %v", len(text), size, ok)
		}
		// What is longer than any that confrev writes is forged, and would take the memory of many.
		if got, err := content.ParseDigests(text); (err == nil) != want || (got != nil) != want {
			t.Errorf("%d bytes are read as %d digests: %v", size, len(got), err)
		}
	}
}

func TestMalformedDigestsAreRefused(t *testing.T) {
	digest := strings.Repeat("a", 16)
	for name, text := range map[string]string{
		"no digest":            "key",
		"no key":               "=" + digest,
		"an empty digest":      "key=",
		"a short digest":       "key=abc",
		"a long digest":        "key=" + digest + "a",
		"a comma at the end":   "key=" + digest + ",",
		"a comma at the start": ",key=" + digest,
		"a bad one of two":     "key=" + digest + ",oops",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := content.ParseDigests(text); err == nil || got != nil {
				t.Errorf("ParseDigests(%q) = %v, %v", text, got, err)
			}
		})
	}
}

// Rule 3: only the keys that a workload uses count.
func TestSameKeys(t *testing.T) {
	binary := content.Content{BinaryData: map[string][]byte{"a": []byte("1")}}
	tests := map[string]struct {
		a, b content.Content
		keys []string
		want bool
	}{
		"the keys have the same values":            {data("a", "1", "b", "2"), data("a", "1", "b", "2"), []string{"a", "b"}, true},
		"another key changed":                      {data("a", "1", "b", "2"), data("a", "1", "b", "3"), []string{"a"}, true},
		"another key was added":                    {data("a", "1"), data("a", "1", "b", "2"), []string{"a"}, true},
		"the key changed":                          {data("a", "1", "b", "2"), data("a", "2", "b", "2"), []string{"a"}, false},
		"one of two keys changed":                  {data("a", "1", "b", "2"), data("a", "1", "b", "3"), []string{"a", "b"}, false},
		"the key was added":                        {data(), data("a", "1"), []string{"a"}, false},
		"the key was removed":                      {data("a", "1"), data(), []string{"a"}, false},
		"the key was added, empty":                 {data(), data("a", ""), []string{"a"}, false},
		"the key is in neither":                    {data("b", "1"), data("b", "2"), []string{"a"}, true},
		"the values of two keys were swapped":      {data("a", "1", "b", "2"), data("a", "2", "b", "1"), []string{"a", "b"}, false},
		"the key moved from data to binaryData":    {data("a", "1"), binary, []string{"a"}, false},
		"no keys at all are asked for":             {data("a", "1"), data("a", "2"), nil, true},
		"the key has the value that another had":   {data("a", "1", "b", "2"), data("a", "2"), []string{"a"}, false},
		"a value is the start of the value before": {data("a", "12"), data("a", "1"), []string{"a"}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			a, b := test.a.Digests(), test.b.Digests()
			if got := a.SameKeys(b, test.keys); got != test.want {
				t.Errorf("SameKeys = %v, want %v", got, test.want)
			}
			if got := b.SameKeys(a, test.keys); got != test.want {
				t.Errorf("the other way round: SameKeys = %v, want %v", got, test.want)
			}
		})
	}
}

// FuzzParseDigests checks that what is accepted means what it says.
func FuzzParseDigests(f *testing.F) {
	f.Add("a=" + strings.Repeat("a", 16))
	f.Add("a=" + strings.Repeat("a", 16) + ",b=" + strings.Repeat("b", 16))
	f.Add("a==" + strings.Repeat("a", 15))
	f.Fuzz(func(t *testing.T, text string) {
		digests, err := content.ParseDigests(text)
		if err != nil {
			return
		}
		written, _ := digests.Text()
		again, err := content.ParseDigests(written)
		if err != nil {
			t.Fatalf("ParseDigests refuses what Text gave, %q: %v", written, err)
		}
		if diff := cmp.Diff(digests, again); diff != "" {
			t.Errorf("ParseDigests(%q) again (-want +got):\n%s", text, diff)
		}
	})
}
