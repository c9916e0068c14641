package optin_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
)

// annotated makes annotations from pairs of key and value.
func annotated(pairs ...string) map[string]string {
	all := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		all[pairs[i]] = pairs[i+1]
	}
	return all
}

var defaults = optin.Defaults{
	Settle: 2 * time.Second, Injection: optin.Admission, Compat: optin.Compat{Reloader: true, Wave: true},
}

const (
	allTracked = "configmap/app configmap/web secret/db"
	reloader   = "reloader.stakater.com/"
	wave       = "wave.pusher.com/"
)

// tracks returns what is tracked of all the sources that tests know, in the form of usesOf.
func tracks(track optin.Track, about map[string]optin.Traits) string {
	var texts []string
	for _, use := range track.Select(usesOf(allTracked), false, traitsOf(about)).Uses {
		texts = append(texts, use.String())
	}
	return strings.Join(texts, " ")
}

// reasonsOf returns the reasons of problems.
func reasonsOf(problems []notice.Notice) string {
	var reasons []string
	for _, p := range problems {
		reasons = append(reasons, p.Reason)
	}
	return strings.Join(reasons, " ")
}

func TestTrackPrecedence(t *testing.T) {
	const reloaderApp, template = "configmap." + reloader + "reload", "secret." + reloader + "reload"
	all, none := annotated(keys.Track, "all"), annotated(keys.Track, "none")
	owned, consent := map[string]optin.Traits{"secret/db": {Owned: true}}, annotated(keys.Owners, "true")
	tests := map[string]struct {
		written optin.Metadata
		about   map[string]optin.Traits
		tracked string
		mode    optin.Mode
		problem string
	}{
		"no settings":   {mode: optin.Revision},
		"the workload":  {written: optin.Metadata{Annotations: all}, tracked: allTracked, mode: optin.Revision},
		"the namespace": {written: optin.Metadata{NamespaceLabels: all}, tracked: allTracked, mode: optin.Revision},
		"a namespace that says none says nothing": {written: optin.Metadata{NamespaceLabels: none}, mode: optin.Revision},
		"an empty label of the namespace":         {written: optin.Metadata{NamespaceLabels: annotated(keys.Track, "")}, mode: optin.Revision},
		"a list, which no label can hold": {
			written: optin.Metadata{NamespaceLabels: annotated(keys.Track, "true")}, mode: optin.Revision, problem: optin.InvalidTrack,
		},
		"the source's owner, without consent": {about: owned, mode: optin.Revision},
		"the source's owner, with the workload's consent": {
			written: optin.Metadata{Annotations: consent, NamespaceLabels: annotated(keys.Owners, "false")}, about: owned, tracked: "secret/db", mode: optin.Revision,
		},
		"the source's owner, with the consent of a label of the namespace": {
			written: optin.Metadata{NamespaceLabels: consent}, about: owned, tracked: "secret/db", mode: optin.Revision,
		},
		"the source's owner, with the consent of an annotation of the namespace": {
			written: optin.Metadata{NamespaceAnnotations: consent}, about: owned, tracked: "secret/db", mode: optin.Revision,
		},
		"the source's owner, refused by the workload in a namespace that consents": {
			written: optin.Metadata{Annotations: annotated(keys.Owners, "false"), NamespaceLabels: consent}, about: owned, mode: optin.Revision,
		},
		"the source's owner, with a slip": {
			written: optin.Metadata{Annotations: annotated(keys.Owners, "True"), NamespaceLabels: consent}, about: owned, mode: optin.Revision, problem: optin.InvalidTrack,
		},
		"confrev.io/owners on the template is no consent": {
			written: optin.Metadata{TemplateAnnotations: consent}, about: owned, mode: optin.Revision, problem: notice.UnknownAnnotation,
		},
		"the source's owner in a namespace's none": {
			written: optin.Metadata{Annotations: consent, NamespaceLabels: none}, about: owned, tracked: "secret/db", mode: optin.Revision,
		},
		"a workload that says none, in a namespace that says all": {
			written: optin.Metadata{Annotations: none, NamespaceLabels: all}, mode: optin.Revision,
		},
		"a workload that says none, and owns a source": {
			written: optin.Metadata{Annotations: none, NamespaceLabels: consent}, about: owned, mode: optin.Revision,
		},
		"a workload with a list, in a namespace that says all": {
			written: optin.Metadata{Annotations: annotated(keys.Track, "configmap/app"), NamespaceLabels: all}, tracked: "configmap/app", mode: optin.Revision,
		},
		"a list and an owned source are both tracked": {
			written: optin.Metadata{Annotations: annotated(keys.Track, "configmap/app", keys.Owners, "true")}, about: owned, tracked: "configmap/app secret/db", mode: optin.Revision,
		},
		"an empty annotation takes the namespace's word away": {
			written: optin.Metadata{Annotations: annotated(keys.Track, ""), NamespaceLabels: all}, mode: optin.Revision,
		},
		"a slip tracks nothing, not what the namespace says": {
			written: optin.Metadata{Annotations: annotated(keys.Track, "oops"), NamespaceLabels: all}, mode: optin.Revision, problem: optin.InvalidTrack,
		},
		"another tool's annotation": {
			written: optin.Metadata{Annotations: annotated(reloader+"auto", "true")}, tracked: allTracked, mode: optin.Restart,
		},
		"the workload and another tool's annotation": {
			written: optin.Metadata{Annotations: annotated(keys.Track, "configmap/app", reloader+"auto", "true")}, tracked: "configmap/app", mode: optin.Revision,
		},
		"the workload says none, another tool's annotation says all": {
			written: optin.Metadata{Annotations: annotated(keys.Track, "none", reloader+"auto", "true", wave+"update-on-config-change", "true")}, mode: optin.Revision,
		},
		"another tool's annotation, in a namespace that says all": {
			written: optin.Metadata{Annotations: annotated(reloaderApp, "app"), NamespaceLabels: all}, tracked: "configmap/app", mode: optin.Restart,
		},
		"another tool's annotation of the template, in a namespace that says all": {
			written: optin.Metadata{TemplateAnnotations: annotated(template, "db"), NamespaceLabels: all}, tracked: "secret/db", mode: optin.Restart,
		},
		"another tool's opt-out, in a namespace that says all": {
			written: optin.Metadata{Annotations: annotated(reloader+"auto", "false"), NamespaceLabels: all}, mode: optin.Restart,
		},
		"another tool's list next to its auto: false, in a namespace that says all": {
			written: optin.Metadata{Annotations: annotated(reloader+"auto", "false", reloaderApp, "app"), NamespaceLabels: all}, tracked: "configmap/app", mode: optin.Restart,
		},
		"another tool's ignore, in a namespace that says all": {
			written: optin.Metadata{Annotations: annotated(reloader+"ignore", "true"), NamespaceLabels: all}, about: owned, mode: optin.Restart,
		},
		"the workload and another tool's ignore": {
			written: optin.Metadata{Annotations: annotated(keys.Track, "configmap/app", reloader+"ignore", "true")}, tracked: "configmap/app", mode: optin.Revision,
		},
		"another tool's slip, in a namespace that says all": {
			written: optin.Metadata{Annotations: annotated(reloader+"auto", "nope"), NamespaceLabels: all}, tracked: allTracked, mode: optin.Revision, problem: optin.InvalidCompat,
		},
		"another tool's exclusion, in a namespace that says all": {
			written: optin.Metadata{Annotations: annotated("configmaps.exclude."+reloader+"reload", "app"), NamespaceLabels: all}, tracked: "configmap/web secret/db", mode: optin.Revision,
		},
		"another tool's exclusion next to a list of the workload's own": {
			written: optin.Metadata{Annotations: annotated("configmaps.exclude."+reloader+"reload", "app", keys.Track, "configmap/app")}, tracked: "configmap/app", mode: optin.Revision,
		},
		"another tool's annotation, with a mode of its own": {
			written: optin.Metadata{Annotations: annotated(reloader+"auto", "true", keys.Mode, "revision")}, tracked: allTracked, mode: optin.Revision,
		},
		"another tool's annotation, with a mode that is none": {
			written: optin.Metadata{Annotations: annotated(reloader+"auto", "true", keys.Mode, "oops")}, tracked: allTracked, mode: optin.Restart, problem: optin.InvalidMode,
		},
		"confrev's words on the template are no one's": {
			written: optin.Metadata{TemplateAnnotations: annotated(keys.Track, "all", keys.Mode, "restart")}, mode: optin.Revision,
			problem: notice.UnknownAnnotation + " " + notice.UnknownAnnotation,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			before := maps.Clone(test.written.Annotations)
			config := optin.Read(test.written, defaults)
			if got := tracks(config.Track, test.about); got != test.tracked {
				t.Errorf("tracks %q, want %q", got, test.tracked)
			}
			if config.Mode != test.mode {
				t.Errorf("mode %s, want %s", config.Mode, test.mode)
			}
			if got := reasonsOf(config.Problems); got != test.problem {
				t.Errorf("problems %+v, want %q", config.Problems, test.problem)
			}
			if diff := cmp.Diff(before, test.written.Annotations); diff != "" {
				t.Errorf("what was written was changed (-before +after):\n%s", diff)
			}
		})
	}
}

func TestCompatIsOffByDefault(t *testing.T) {
	written := map[string]optin.Metadata{
		"reloader":             {Annotations: annotated(reloader+"auto", "true")},
		"reloader on template": {TemplateAnnotations: annotated(reloader+"auto", "true")},
		"wave":                 {Annotations: annotated(wave+"update-on-config-change", "true")},
	}
	for name, w := range written {
		for _, compat := range []optin.Compat{{}, {Reloader: true}, {Wave: true}, {Reloader: true, Wave: true}} {
			heard := compat.Wave
			if name != "wave" {
				heard = compat.Reloader
			}
			config := optin.Read(w, optin.Defaults{Compat: compat})
			if config.Track.Enabled() != heard || (config.Mode == optin.Restart) != heard {
				t.Errorf("%s with %+v: tracks %q in mode %s", name, compat, tracks(config.Track, nil), config.Mode)
			}
		}
	}
}

func TestModesAndInjections(t *testing.T) {
	tests := map[string]struct {
		annotations map[string]string
		injection   optin.Injection // the default; Admission when it is not given
		mode        optin.Mode
		want        optin.Injection
		tracked     string
		problem     string
		quoted      string // part of the problem
	}{
		"nothing":                       {mode: optin.Revision, want: optin.Admission},
		"revision":                      {annotations: annotated(keys.Mode, "revision"), mode: optin.Revision, want: optin.Admission},
		"restart":                       {annotations: annotated(keys.Mode, "restart"), mode: optin.Restart, want: optin.Admission},
		"injection admission":           {annotations: annotated(keys.Injection, "admission"), injection: optin.Template, mode: optin.Revision, want: optin.Admission},
		"injection template":            {annotations: annotated(keys.Injection, "template"), mode: optin.Revision, want: optin.Template},
		"the default injection":         {injection: optin.Template, mode: optin.Revision, want: optin.Template},
		"restart and template together": {annotations: annotated(keys.Mode, "restart", keys.Injection, "template"), mode: optin.Restart, want: optin.Template},
		// The sources say for themselves that they may be attached.
		"attach tracks all":               {annotations: annotated(keys.Mode, "attach"), mode: optin.Attach, want: optin.Admission, tracked: allTracked},
		"attach with a list":              {annotations: annotated(keys.Mode, "attach", keys.Track, "configmap/app"), mode: optin.Attach, want: optin.Admission, tracked: "configmap/app"},
		"attach, but opted out":           {annotations: annotated(keys.Mode, "attach", keys.Track, "none"), mode: optin.Attach, want: optin.Admission},
		"attach with Reloader's list":     {annotations: annotated(keys.Mode, "attach", "configmap."+reloader+"reload", "app"), mode: optin.Attach, want: optin.Admission, tracked: "configmap/app"},
		"attach, but Reloader opted out":  {annotations: annotated(keys.Mode, "attach", reloader+"auto", "false"), mode: optin.Attach, want: optin.Admission},
		"a mode that is none":             {annotations: annotated(keys.Mode, "freeze"), mode: optin.Revision, want: optin.Admission, problem: optin.InvalidMode, quoted: `"freeze"`},
		"an empty mode":                   {annotations: annotated(keys.Mode, ""), mode: optin.Revision, want: optin.Admission, problem: optin.InvalidMode, quoted: `""`},
		"a mode in capitals":              {annotations: annotated(keys.Mode, "Restart"), mode: optin.Revision, want: optin.Admission, problem: optin.InvalidMode, quoted: `"Restart"`},
		"an injection that is none":       {annotations: annotated(keys.Injection, "sidecar"), injection: optin.Template, mode: optin.Revision, want: optin.Template, problem: optin.InvalidMode, quoted: "using template"},
		"two slips are both told":         {annotations: annotated(keys.Mode, "x", keys.Injection, "y"), mode: optin.Revision, want: optin.Admission, problem: "InvalidMode InvalidMode", quoted: `"x"`},
		"a slip does not hide the others": {annotations: annotated(keys.Mode, "x", keys.Injection, "template"), mode: optin.Revision, want: optin.Template, problem: optin.InvalidMode, quoted: `"x"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			with := defaults
			if test.injection != "" {
				with.Injection = test.injection
			}
			config := optin.Read(optin.Metadata{Annotations: test.annotations}, with)
			if config.Mode != test.mode || config.Injection != test.want {
				t.Errorf("mode %s, injection %s; want %s, %s", config.Mode, config.Injection, test.mode, test.want)
			}
			if got := tracks(config.Track, nil); got != test.tracked {
				t.Errorf("tracks %q, want %q", got, test.tracked)
			}
			if got := reasonsOf(config.Problems); got != test.problem {
				t.Fatalf("problems %+v, want %q", config.Problems, test.problem)
			}
			if len(config.Problems) > 0 && !strings.Contains(config.Problems[0].Text, test.quoted) {
				t.Errorf("%q does not say %q", config.Problems[0].Text, test.quoted)
			}
		})
	}
}

// Rule 2.
func TestSettle(t *testing.T) {
	for text, want := range map[string]time.Duration{"5s": 5 * time.Second, "0s": 0, "0": 0, "1m30s": 90 * time.Second, "150ms": 150 * time.Millisecond} {
		config := optin.Read(optin.Metadata{Annotations: annotated(keys.Settle, text)}, defaults)
		if config.Settle != want || len(config.Problems) > 0 {
			t.Errorf("%q: %s, %+v", text, config.Settle, config.Problems)
		}
	}
	for _, text := range []string{"", "5", "-1s", "soon", "5 s", "99999999999h"} {
		config := optin.Read(optin.Metadata{Annotations: annotated(keys.Settle, text)}, defaults)
		if config.Settle != defaults.Settle || reasonsOf(config.Problems) != optin.InvalidSettle {
			t.Errorf("%q: %s, %+v", text, config.Settle, config.Problems)
		}
		if len(config.Problems) == 1 && !strings.Contains(config.Problems[0].Text, "using 2s") {
			t.Errorf("%q: %q does not say what holds", text, config.Problems[0].Text)
		}
	}
}

func TestReadGivesWhatItCouldReadOfRestartOn(t *testing.T) {
	config := optin.Read(optin.Metadata{Annotations: annotated(keys.RestartOn, "configmap/flags,oops")}, defaults)
	if len(config.RestartOn) != 1 || config.RestartOn[0].String() != "configmap/flags" || reasonsOf(config.Problems) != optin.InvalidRestartOn {
		t.Errorf("%+v, %+v", config.RestartOn, config.Problems)
	}
	// It holds whether anything is tracked or not.
	for _, written := range []optin.Metadata{
		{Annotations: annotated(keys.RestartOn, "configmap/flags", keys.Track, "")},
		{Annotations: annotated(keys.RestartOn, "configmap/flags"), NamespaceLabels: annotated(keys.Track, "none")},
		{Annotations: annotated(keys.RestartOn, "configmap/flags", reloader+"auto", "false")},
	} {
		config := optin.Read(written, defaults)
		if len(config.RestartOn) != 1 || config.Track.Enabled() || len(config.Problems) > 0 {
			t.Errorf("%+v: %+v, tracked: %v, %+v", written, config.RestartOn, config.Track.Enabled(), config.Problems)
		}
	}
}

// A workload that opted out is left alone, whatever else it says; but it is told what it got wrong.
func TestOptingOutDropsRestartOnToo(t *testing.T) {
	for text, problem := range map[string]string{"configmap/flags": "", "configmap/flags,oops": optin.InvalidRestartOn} {
		config := optin.Read(optin.Metadata{Annotations: annotated(keys.RestartOn, text, keys.Track, "none")}, defaults)
		if len(config.RestartOn) > 0 || config.Track.Enabled() || reasonsOf(config.Problems) != problem {
			t.Errorf("%q: %+v, tracked: %v, %+v", text, config.RestartOn, config.Track.Enabled(), config.Problems)
		}
	}
}

func TestMergeTakesOptInOfReferrers(t *testing.T) {
	type all = map[string]string
	tests := map[string]struct {
		own    all
		others []all
		want   all
	}{
		"no one refers to it":      {all{"a": "1"}, nil, all{"a": "1"}},
		"one without a word":       {all{"a": "1"}, []all{{"b": "2"}}, all{"a": "1"}},
		"one that asks":            {nil, []all{{keys.Track: "all", "b": "2"}}, all{keys.Track: "all"}},
		"the workload's own win":   {all{keys.Track: "none", "a": "1"}, []all{{keys.Track: "all"}}, all{keys.Track: "none", "a": "1"}},
		"each adds what it says":   {all{keys.Settle: "1s"}, []all{{keys.Track: "all"}, {keys.Mode: "restart"}}, all{keys.Settle: "1s", keys.Track: "all", keys.Mode: "restart"}},
		"another tool's":           {nil, []all{{reloader + "auto": "true", "configmap." + reloader + "reload": "a"}}, all{reloader + "auto": "true", "configmap." + reloader + "reload": "a"}},
		"yet another tool's":       {nil, []all{{wave + "update-on-config-change": "true", "pusher.com/x": "y"}}, all{wave + "update-on-config-change": "true"}},
		"what only looks the same": {nil, []all{{"confrev.io.example.com/track": "all", "reloader.stakater.com.example.com/auto": "true"}}, all{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			own := maps.Clone(test.own)
			if diff := cmp.Diff(test.want, optin.Merge(test.own, test.others...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(own, test.own); diff != "" {
				t.Errorf("the workload's own annotations were changed:\n%s", diff)
			}
		})
	}
}

func TestParseInjection(t *testing.T) {
	for _, want := range []optin.Injection{optin.Admission, optin.Template} {
		if got, err := optin.ParseInjection(string(want)); err != nil || got != want {
			t.Errorf("ParseInjection(%s) = %s, %v", want, got, err)
		}
	}
	for _, text := range []string{"", "Admission", "template ", "none"} {
		if got, err := optin.ParseInjection(text); err == nil || got != "" {
			t.Errorf("ParseInjection(%q) = %s, %v", text, got, err)
		}
	}
}
