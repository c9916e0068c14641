package optin_test

import (
	"fmt"
	"strings"
	"testing"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// listOf returns a list with so many items.
func listOf(form string, items int) string {
	var all []string
	for i := range items {
		all = append(all, fmt.Sprintf(form, i))
	}
	return strings.Join(all, ",")
}

// A list that is longer than any that a person writes counts for nothing: half of it would pin one part of what belongs together.
func TestTrackIsBounded(t *testing.T) {
	for items, want := range map[int]int{pin.MaxPins: pin.MaxPins, pin.MaxPins + 1: 0, 20_000: 0} {
		track, err := optin.ParseTrack(listOf("configmap/app-%d", items))
		if got := len(track.Select(nil, true, nil).Unused); got != want || track.Enabled() != (want > 0) || track.TooLong() != (want == 0) {
			t.Errorf("of %d items %d count", items, got)
		}
		if want == 0 && (err == nil || !strings.Contains(err.Error(), "it has more than 200 items, so none of them counts")) || want > 0 && err != nil {
			t.Errorf("of %d items: %v", items, err)
		}
	}
	config := optin.Read(optin.Metadata{Annotations: annotated(keys.Track, listOf("configmap/app-%d", 201)), NamespaceLabels: annotated(keys.Track, "all")}, defaults)
	if got := tracks(config.Track, nil); got != "" || reasonsOf(config.Problems) != optin.InvalidTrack {
		t.Errorf("tracks %q, problems %+v", got, config.Problems)
	}
}

// A reader of an event corrects the first mistakes, and then sees the next ones.
func TestFewProblemsOfOneSettingAreListed(t *testing.T) {
	const slips = "is not a source"
	tests := map[string]struct {
		slips, listed int
		rest          string
	}{
		"as many as are listed": {5, 5, ""}, "one more": {6, 5, "; and 1 more"}, "many": {100, 5, "; and 95 more"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			track, err := optin.ParseTrack("configmap/app," + listOf("slip-%d", test.slips))
			if err == nil || strings.Count(err.Error(), slips) != test.listed || strings.Contains(err.Error(), " more") != (test.rest != "") || !strings.HasSuffix(err.Error(), test.rest) {
				t.Errorf("got %v", err)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Error("the API server drops warnings with line breaks")
			}
			if !track.Tracks(pin.Source{Kind: pin.ConfigMap, Name: "app"}) {
				t.Error("the rest does not count")
			}
			if _, err := optin.ParseRestartOn(listOf("slip-%d", min(test.slips, 32))); err == nil || strings.Count(err.Error(), "is not an object") != test.listed {
				t.Errorf("of restart-on: %v", err)
			}
		})
	}
}

func TestItemsAreBounded(t *testing.T) {
	for length, want := range map[int]string{1024: "", 1025: "an item is longer than 1024 bytes"} {
		const item = "configmap/web"
		_, err := optin.ParseTrack("configmap/app," + strings.Repeat(" ", length-len(item)) + item)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("an item of %d bytes: %v, want %q", length, err, want)
		}
	}
}
