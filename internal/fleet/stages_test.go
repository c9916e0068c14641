package fleet

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/spread"
)

// waitsFor returns a survey of a change in namespace x that waits for namespace first.
func waitsFor(kind pin.Kind, version string) *Survey {
	s := surveyed(0)
	s.Source.Kind, s.Settings.After = kind, "first"
	s.Meta = &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{keys.Version: version}}}
	return s
}

// Rule 44: what proves a change, and what does not.
func TestWhatProvesAChange(t *testing.T) {
	noted := func(name, record string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "first", Name: name, UID: "uid",
			Labels:      map[string]string{keys.Source: "app", keys.Content: string(content.Content{}.Hash())},
			Annotations: map[string]string{keys.SourceName: "app", keys.Propagation: record}}}
	}
	const same, other = "app-bbbbbbbbbb", "app-zzzzzzzzzz"
	const complete = `{"revision":"uid","number":1,"wave":0,"complete":true,"version":"7"}`
	elsewhere, another := noted(same, complete), noted(same, complete)
	elsewhere.Namespace = "second"
	another.Annotations[keys.SourceName] = "app2"
	for name, test := range map[string]struct {
		revision *corev1.ConfigMap
		version  string
		behind   bool
	}{
		"the same content":         {revision: noted(same, complete)},
		"the same version":         {revision: noted(other, complete), version: "7"},
		"other content":            {revision: noted(other, complete), behind: true},
		"another version":          {revision: noted(other, complete), version: "8", behind: true},
		"no version on both":       {revision: noted(other, `{"revision":"uid","number":1,"wave":0,"complete":true}`), behind: true},
		"a version of spaces":      {revision: noted(other, `{"revision":"uid","number":1,"wave":0,"complete":true,"version":" "}`), version: " ", behind: true},
		"not complete":             {revision: noted(same, `{"revision":"uid","number":1,"wave":3}`), behind: true},
		"a record of another":      {revision: noted(same, `{"revision":"other","number":1,"wave":0,"complete":true}`), behind: true},
		"in another namespace":     {revision: elsewhere, behind: true},
		"of another source":        {revision: another, behind: true},
		"a name of its own":        {revision: noted("app-b", complete), version: "7", behind: true},
		"no record":                {revision: noted(same, ""), behind: true},
		"no revision of a version": {revision: elsewhere, version: "7", behind: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := New(nil, func() time.Time { return noon })
			f.Configure(optin.Defaults{}, fake.NewClientBuilder().WithObjects(test.revision).Build())
			s := waitsFor(pin.ConfigMap, test.version)
			s.Current.Revision = same
			if got, err := f.behind(t.Context(), s); err != nil || got != test.behind {
				t.Errorf("behind: %v, %v", got, err)
			}
		})
	}
}

// Rule 44: what this process wrote proves the revision that it wrote it on, and not one of a source that was made again since.
func TestWhatWasWrittenProvesWhatItIsOn(t *testing.T) {
	now := noon
	f := New(nil, func() time.Time { return now })
	f.Configure(optin.Defaults{}, fake.NewClientBuilder().Build())
	written := surveyed(0)
	written.Source.Namespace, written.Current = "first", pin.Pin{Revision: "app-a", Number: 2}
	f.change(written.Source).begin(written)
	f.Recorded(written, spread.Record{Revision: "uid", Number: 2, Complete: true, Version: "7"})
	// The source has other content with the same number.
	again := surveyed(0)
	again.Source.Namespace = "first"
	f.change(again.Source).begin(again)
	for name, test := range map[string]struct {
		current, version string
		kind             pin.Kind
		behind           bool
	}{
		"other content":       {current: "app-b", kind: pin.ConfigMap, behind: true},
		"the content":         {current: "app-a", kind: pin.ConfigMap},
		"the version":         {current: "app-b", version: "7", kind: pin.ConfigMap},
		"a Secret of its own": {current: "app-a", version: "7", kind: pin.Secret, behind: true},
	} {
		s := waitsFor(test.kind, test.version)
		s.Current.Revision = test.current
		now = noon
		if got, err := f.behind(t.Context(), s); err != nil || got != test.behind {
			t.Errorf("%s: behind %v, %v", name, got, err)
		}
		// By then, the cache would show it, if it were still there.
		now = noon.Add(shownWithin)
		if got, err := f.behind(t.Context(), s); err != nil || !got {
			t.Errorf("%s, later: behind %v, %v", name, got, err)
		}
	}
}

// A user of the plugin who may not look at the other namespace sees everything else. The controller must not take that for an answer.
func TestAUserMayNotSeeTheStageBefore(t *testing.T) {
	refused := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", nil)
	}}).Build()
	for brief, f := range map[bool]*Fleet{true: OfSnapshot(nil, time.Now), false: New(nil, time.Now)} {
		f.Configure(optin.Defaults{}, refused)
		behind, err := f.behind(t.Context(), waitsFor(pin.ConfigMap, ""))
		if behind != brief || (err == nil) != brief {
			t.Errorf("brief %v: %v, %v", brief, behind, err)
		}
	}
}

// Rules 13 and 44: of the revisions that were vouched for, the one is awaited that lets the change begin in the next namespace, until that notes
// that it did.
func TestWhichRevisionIsAwaited(t *testing.T) {
	const same, newest, older = "app-bbbbbbbbbb", "app-wwwwwwwwww", "app-zzzzzzzzzz"
	vouched := func(name string, number int, version string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "first", Name: name, UID: "uid",
			Labels: map[string]string{keys.Source: "app", keys.Content: string(content.Content{}.Hash())},
			Annotations: map[string]string{keys.SourceName: "app",
				keys.Propagation: spread.Record{Revision: "uid", Number: int64(number), Complete: true, Version: version}.String()}}}
	}
	for name, test := range map[string]struct {
		version string
		change  func(s *Survey)
		want    string
	}{
		"by its content":                  {version: "7", change: func(s *Survey) { s.Current.Revision = same }, want: same},
		"by its version":                  {version: "7", change: func(*Survey) {}, want: newest},
		"by nothing":                      {version: "8", change: func(*Survey) {}},
		"it has begun":                    {version: "7", change: func(s *Survey) { s.Record.Staged = true }},
		"nothing uses the source":         {version: "7", change: func(s *Survey) { s.Current = pin.Pin{} }},
		"the namespace waits for another": {version: "7", change: func(s *Survey) { s.Settings.After = "other" }},
	} {
		t.Run(name, func(t *testing.T) {
			s := waitsFor(pin.ConfigMap, test.version)
			s.at, s.Current.Revision = noon, "app-xxxxxxxxxx"
			test.change(s)
			source := revision.Metadata(s.Source)
			client := fake.NewClientBuilder().WithObjects(source, vouched(same, 1, "6"), vouched(older, 2, "7"), vouched(newest, 3, "7")).Build()
			f := New(client, func() time.Time { return noon })
			stages, err := optin.ParseStages([]string{"x=first"})
			if err != nil {
				t.Fatal(err)
			}
			f.Configure(optin.Defaults{Stages: stages}, client)
			asked, _, err := f.Spreading(t.Context(), s.Source)
			if err != nil {
				t.Fatal(err)
			}
			s.version = asked.Meta.ResourceVersion
			f.change(s.Source).latest = s
			for _, name := range []string{same, newest, older} {
				meta := revision.Metadata(revision.Ref{Kind: pin.ConfigMap, Namespace: "first", Name: name})
				if err := client.Get(t.Context(), types.NamespacedName{Namespace: "first", Name: name}, meta); err != nil {
					t.Fatal(err)
				}
				awaited, err := f.Awaited(t.Context(), revision.Ref{Kind: pin.ConfigMap, Namespace: "first", Name: name}, meta)
				if err != nil || awaited != (name == test.want) {
					t.Errorf("%s is awaited: %v, %v", name, awaited, err)
				}
			}
		})
	}
}
