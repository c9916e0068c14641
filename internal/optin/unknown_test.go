package optin_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
)

// unknown returns what is said about keys without an effect.
func unknown(problems []notice.Notice) []string {
	var all []string
	for _, n := range problems {
		if n.Reason == notice.UnknownAnnotation {
			all = append(all, n.Text)
		}
	}
	return all
}

// A key that has no effect where it is does not pass in silence, and the warning says what may have been meant.
func TestKeysWithoutAnEffect(t *testing.T) {
	for want, w := range map[string]optin.Metadata{
		"annotation confrev.io/trak has no effect: did you mean confrev.io/track?":                                {Annotations: written("confrev.io/trak", "all")},
		"label confrev.io/waves has no effect: did you mean confrev.io/wave?":                                     {Labels: written("confrev.io/waves", "1")},
		"label confrev.io/settle has no effect: write it as an annotation":                                        {Labels: written(keys.Settle, "1s")},
		"annotation confrev.io/steps has no effect: it belongs on a source or a namespace":                        {Annotations: written(keys.Steps, "1")},
		"annotation confrev.io/checksums-of-everything has no effect: confrev does not know it":                   {Annotations: written("confrev.io/checksums-of-everything", "x")},
		"annotation confrev.io/track of the pod template has no effect: it belongs on a workload":                 {TemplateAnnotations: written(keys.Track, "all")},
		"annotation confrev.io/track of the namespace has no effect: write it as a label":                         {NamespaceAnnotations: written(keys.Track, "all")},
		"annotation confrev.io/freezeuntil of the namespace has no effect: did you mean confrev.io/freeze-until?": {NamespaceAnnotations: written("confrev.io/freezeuntil", "x")},
		"label confrev.io/safety of the namespace has no effect: write it as an annotation":                       {NamespaceLabels: written(keys.Safety, "careful")},
	} {
		if got := unknown(optin.Read(w, optin.Defaults{}).Problems); !slices.Equal(got, []string{want}) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	for want, meta := range map[string]*metav1.ObjectMeta{
		"annotation confrev.io/step of configmap/app has no effect: did you mean confrev.io/steps?":              {Annotations: written("confrev.io/step", "1")},
		"label confrev.io/safety of configmap/app has no effect: write it as an annotation":                      {Labels: written(keys.Safety, "careful")},
		"annotation confrev.io/wave of configmap/app has no effect: it belongs on a workload":                    {Annotations: written(keys.Wave, "1")},
		"annotation confrev.io/analysis of configmap/app has no effect: it belongs on a workload or a namespace": {Annotations: written(keys.Analysis, "x")},
	} {
		_, problems := optin.Compat{}.Describe(pin.Source{Kind: pin.ConfigMap, Name: "app"}, meta)
		if got := unknown(problems); !slices.Equal(got, []string{want}) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Nothing is said about other tools' keys, or about what confrev writes, which a copy of an object has too.
func TestKeysThatAreNotReported(t *testing.T) {
	others := map[string]string{"example.com/step": "1", "reloader.stakater.com/auto": "true", keys.ChangeCause: "x"}
	for _, key := range []string{
		keys.Pins, keys.Hashes, keys.Held, keys.HeldHashes, keys.Checksum, keys.Advanced, keys.Paused, keys.Source, keys.Content, keys.SourceName, keys.Number,
		keys.KeyDigests, keys.SourceVersion, keys.Renewed, keys.Propagation, keys.Anchor, keys.Attached, keys.AnalysisOf,
	} {
		others[key] = ""
	}
	w := optin.Metadata{Annotations: others, Labels: others, TemplateAnnotations: others, NamespaceAnnotations: others, NamespaceLabels: others}
	if got := unknown(optin.Read(w, optin.Defaults{}).Problems); len(got) > 0 {
		t.Error(got)
	}
}

// Someone who may annotate an object cannot flood its events.
func TestFewUnknownKeysAreReported(t *testing.T) {
	many := map[string]string{}
	for i := range 100 {
		many["confrev.io/x"+strconv.Itoa(i)] = ""
	}
	if got := unknown(optin.Read(optin.Metadata{Annotations: many}, optin.Defaults{}).Problems); len(got) != 5 {
		t.Errorf("%d are", len(got))
	}
	three := map[string]string{"confrev.io/x1": "", "confrev.io/x2": "", "confrev.io/x3": ""}
	if got := unknown(optin.Read(optin.Metadata{Annotations: three, Labels: many}, optin.Defaults{}).Problems); len(got) != 5 {
		t.Errorf("%d are, annotations and labels together", len(got))
	}
}

// What goes into the cache has the keys of which a warning is due, and no value of them.
func TestKeptHasKeysThatAreNotKnown(t *testing.T) {
	kept := optin.Kept(map[string]string{keys.Steps: "1", "confrev.io/step": "canary", "example.com/x": "y"}, keys.Steps)
	if len(kept) != 2 || kept[keys.Steps] != "1" {
		t.Error(kept)
	}
	if value, ok := kept["confrev.io/step"]; !ok || value != "" {
		t.Error(kept)
	}
	if strings.Contains(strings.Join(unknown(optin.Read(optin.Metadata{Annotations: written("confrev.io/step", "canary")}, optin.Defaults{}).Problems), ""), "canary") {
		t.Error("a value is repeated")
	}
}
