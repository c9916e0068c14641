package inspect

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/podspec"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// The sides are named by what they are, and a revision by its age; nothing is named by a temporary file.
func TestTheSidesOfADiffAreNamed(t *testing.T) {
	t.Setenv("KUBECTL_EXTERNAL_DIFF", "")
	t.Setenv("TZ", "UTC")
	var out bytes.Buffer
	d := &diff{Session: &session.Session{IOStreams: printer.Screened(genericiooptions.IOStreams{Out: &out, ErrOut: &out})}}
	made := metav1.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	old := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: made}, Data: map[string]string{"app.yaml": "a\n"}}
	now := &corev1.ConfigMap{Data: map[string]string{"app.yaml": "b\n"}}
	differ, err := d.compare(d.sides(podspec.Use{Source: gen.Source("configmap/app"), All: true},
		contents{old, pin.Pin{Revision: "app-5f7d8c9b2k", Number: 1}}, contents{now, pin.Pin{Revision: "app"}}))
	if err != nil || !differ {
		t.Fatal(differ, err)
	}
	for _, want := range []string{"--- configmap/app@1/app-5f7d8c9b2k/app.yaml\t2026-03-04 05:06:07", "+++ configmap/app/app.yaml\t", "-a\n", "+b\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), os.TempDir()) {
		t.Errorf("it names temporary files:\n%s", out.String())
	}
}

// The user's program may be named by a path, seen from where the user is.
func TestDiffRunsAProgramOfARelativePath(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("mine", []byte("#!/bin/sh\necho \"$1 against $2\"; exit 1\n"), 0o700); err != nil { //nolint:gosec // It is to be run.
		t.Fatal(err)
	}
	t.Setenv("KUBECTL_EXTERNAL_DIFF", "."+string(filepath.Separator)+"mine")
	var out bytes.Buffer
	d := &diff{Session: &session.Session{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &out}}}
	differ, err := d.compare([2]side{{path: "configmap/app@1/x"}, {path: "configmap/app"}})
	if err != nil || !differ || out.String() != "configmap/app@1/x against configmap/app\n" {
		t.Errorf("%t, %v, %q", differ, err, out.String())
	}
}

// Rule 5: two writers may give one number to two contents. Neither is chosen for the user.
func TestDiffOfANumberThatTwoRevisionsHave(t *testing.T) {
	app := gen.Source("configmap/app")
	made := func(name, number string) metav1.PartialObjectMetadata {
		return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{keys.SourceName: "app", keys.Number: number}}}
	}
	all := revisionsOf(app, []metav1.PartialObjectMetadata{made("app-b", "2"), made("app-a", "1"), made("app-c", "2")})
	for _, flags := range [][2]string{{"", ""}, {"1", "2"}, {"2", "source"}, {"", "source"}} {
		if _, _, err := all.choose(flags[0], flags[1]); err == nil || err.Error() != "configmap/app has several revisions 2: app-b, app-c" {
			t.Errorf("--from=%q --to=%q: %v", flags[0], flags[1], err)
		}
	}
	old, now, err := all.choose("1", "source")
	if err != nil || old != (pin.Pin{Revision: "app-a", Number: 1}) || now != (pin.Pin{Revision: "app"}) {
		t.Errorf("%s, %s, %v", old, now, err)
	}
}

func TestFilesOfADiffHideAndTellApart(t *testing.T) {
	old := map[string][]byte{"same": []byte("x"), "text": []byte("a\n"), "bin": {0xff}, "gone": {}}
	now := map[string][]byte{"same": []byte("x"), "text": []byte("b\n"), "bin": {0xfe}}
	before, after := files{}, files{}
	addFiles(before, after, old, now, false)
	want := map[string]string{"same": "x", "text": "a\n", "gone": "(empty)\n",
		"bin": "binary, 1 bytes, sha256:a8100ae6aa1940d0b663bb31cd466142ebbdbd5187131b92d93818987832eb89\n"}
	if diff := cmp.Diff(want, texts(before)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	before, after = files{}, files{}
	addFiles(before, after, old, now, true)
	if shown := string(before["gone"]); shown != "*** (before)\n" {
		t.Errorf("of a value that goes it shows %q", shown)
	}
	if diff := cmp.Diff(map[string]string{"same": "***\n", "text": "*** (after)\n", "bin": "*** (after)\n"}, texts(after)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func texts(all files) map[string]string {
	text := map[string]string{}
	for name := range maps.Keys(all) {
		text[name] = string(all[name])
	}
	return text
}

// diff hands contents to a program that writes to the terminal itself.
func TestDiffShowsNoControlSequence(t *testing.T) {
	if got := string(shownAs([]byte("\x1b[2Jnew\r\n"), false, false, true, "after")); got != "\\x1b[2Jnew\\x0d\n" {
		t.Errorf("it shows %q", got)
	}
}

// In a mode that copies nothing, tracking would not lead to pins.
func TestWhyThereIsNothingToCompare(t *testing.T) {
	web := session.Target{Kind: workload.Deployment, Object: gen.Deployment("web")}
	for mode, want := range map[optin.Mode]string{
		optin.Revision: "deployment/web has no pins: its pods read the sources as they are when they start; to begin: kubectl confrev track deployment/web -n default",
		optin.Restart:  "deployment/web has no pins: nothing is copied in mode restart",
		optin.Attach:   "deployment/web has no pins: nothing is copied in mode attach",
	} {
		if err := withoutPins(web, optin.Config{Mode: mode}); err.Error() != want {
			t.Errorf("in mode %s: %v", mode, err)
		}
	}
	if _, _, err := revisionsOf(gen.Source("configmap/app"), nil).choose("", ""); err == nil || err.Error() != "configmap/app has no revisions: no workload was pinned to it" {
		t.Error(err)
	}
}
