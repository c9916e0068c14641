package rollout

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/workload"
	"confrev.io/confrev/test/gen"
)

// theKey returns the key of the namespace, as its Secret has it.
func theKey(t *testing.T, letter byte) (*content.Key, *corev1.Secret) {
	t.Helper()
	secret := bytes.Repeat([]byte{letter}, content.KeySize)
	key, err := content.NewKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	made := gen.Secret(keys.KeySecret, optin.KeyType, map[string][]byte{"key": secret})
	made.Immutable = new(true)
	return key, made
}

// Rule 22: what a template, a workload and a hold state of a Secret is compared under the key that it states.
func TestHashesAreComparedUnderTheKeyThatTheyState(t *testing.T) {
	db := gen.Source("secret/db")
	sum := func(value string) string {
		return content.FromSecret(gen.Secret("db", corev1.SecretTypeOpaque, map[string][]byte{"pin": []byte(value)})).Digests().Sum(true, nil)
	}
	mine, made := theKey(t, 'a')
	other, _ := theKey(t, 'b')
	hash := func(key *content.Key, value, number string) string {
		if key == nil {
			return "secret/db=" + sum(value) + "@" + number
		}
		held := content.FromSecret(gen.Secret("db", corev1.SecretTypeOpaque, map[string][]byte{"pin": []byte(value)}))
		return "secret/db=" + key.Sum(db, key.Digests(db, held.Digests()).Sum(true, nil)) + "@" + number
	}
	heldNote := func(from, on string) string {
		return from + ";on=" + strings.TrimPrefix(on, "secret/db=")
	}
	tests := map[string]struct {
		stamped, noted, held string
		unreadable           bool
		verdict              plan.Verdict
		to, note             string // what counts then, and what the workload itself notes
		says                 string
	}{
		"opting in":                                  {verdict: plan.InSync, to: hash(mine, "1", "1"), note: hash(mine, "1", "1")},
		"stamped, unkeyed":                           {stamped: hash(nil, "1", "3"), verdict: plan.InSync, to: hash(nil, "1", "3")},
		"stamped, unkeyed, and changed since":        {stamped: hash(nil, "0", "3"), verdict: plan.Advanced, to: hash(mine, "1", "4")},
		"stamped":                                    {stamped: hash(mine, "1", "3"), verdict: plan.InSync, to: hash(mine, "1", "3")},
		"stamped, and changed since":                 {stamped: hash(mine, "0", "3"), verdict: plan.Advanced, to: hash(mine, "1", "4")},
		"noted, unkeyed":                             {noted: hash(nil, "1", "1"), verdict: plan.InSync, to: hash(nil, "1", "1"), note: hash(nil, "1", "1")},
		"noted, unkeyed, and changed since":          {noted: hash(nil, "0", "1"), verdict: plan.Advanced, to: hash(mine, "1", "2")},
		"it was absent":                              {noted: "secret/db=absent@1", verdict: plan.Advanced, to: hash(mine, "1", "2")},
		"stamped with a lost key":                    {stamped: hash(other, "0", "3"), verdict: plan.InSync, to: hash(mine, "1", "3"), note: hash(mine, "1", "3"), says: notice.KeyLost},
		"noted with a lost key":                      {noted: hash(other, "0", "1"), verdict: plan.InSync, to: hash(mine, "1", "1"), note: hash(mine, "1", "1"), says: notice.KeyLost},
		"a new baseline":                             {stamped: hash(other, "0", "3"), noted: hash(mine, "1", "3"), verdict: plan.InSync, to: hash(mine, "1", "3"), note: hash(mine, "1", "3")},
		"a new baseline, and changed since":          {stamped: hash(other, "0", "3"), noted: hash(mine, "0", "3"), verdict: plan.Advanced, to: hash(mine, "1", "4")},
		"a new baseline whose key is lost too":       {stamped: hash(other, "0", "3"), noted: hash(other, "1", "3"), verdict: plan.InSync, to: hash(mine, "1", "3"), note: hash(mine, "1", "3"), says: notice.KeyLost},
		"held before there was a key":                {stamped: hash(nil, "0", "1"), held: heldNote(hash(nil, "1", "2"), hash(nil, "0", "1")), verdict: plan.Held, to: hash(nil, "0", "1")},
		"held before, and changed since":             {stamped: hash(nil, "0", "1"), held: heldNote(hash(nil, "2", "2"), hash(nil, "0", "1")), verdict: plan.Advanced, to: hash(mine, "1", "3")},
		"held with a lost key":                       {stamped: hash(other, "0", "1"), held: heldNote(hash(other, "1", "2"), hash(other, "0", "1")), verdict: plan.InSync, to: hash(mine, "1", "1"), note: hash(mine, "1", "1"), says: notice.KeyLost},
		"stamped, unkeyed, and the key is not there": {stamped: hash(nil, "0", "3"), unreadable: true, verdict: plan.Unknown, to: hash(nil, "0", "3"), says: "KeyUnreadable"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := gen.Deployment("web", gen.Annotated(keys.RestartOn, "secret/db"), gen.Annotated(keys.Hashes, test.noted), gen.Annotated(keys.HeldHashes, test.held))
			d.Spec.Template.Annotations = map[string]string{keys.Hashes: test.stamped}
			key := made.DeepCopy()
			if test.unreadable {
				key.Immutable = nil
			}
			w := newAdmissionWorld(t, workload.Deployment, gen.Secret("db", corev1.SecretTypeOpaque, map[string][]byte{"pin": []byte("1")}), key)
			w.Options.Secrets = true
			seen, err := w.observe(t.Context(), d, view{reader: w.client})
			if err != nil {
				t.Fatal(err)
			}
			want := seen.decide()
			if verdict, to := want.hashes.Decisions[0].Verdict, want.hashes.Pins.String(); verdict != test.verdict || to != test.to {
				t.Errorf("%s: %s\nwant %s: %s", verdict, to, test.verdict, test.to)
			}
			if noted := want.workloadHashes(seen).String(); noted != test.note {
				t.Errorf("the workload notes %q, want %q", noted, test.note)
			}
			says := slices.ContainsFunc(seen.warnings, func(w notice.Notice) bool { return w.Reason == test.says })
			if says != (test.says != "") || len(seen.warnings) > 1 {
				t.Errorf("it says %+v, want %s", seen.warnings, test.says)
			}
			if test.unreadable != seen.retry {
				t.Errorf("it tries again: %t", seen.retry)
			}
		})
	}
}

// A source whose content is known from the metadata of its revision is read to compare it with what was stated without a key.
func TestUnkeyedHashIsComparedWithData(t *testing.T) {
	source := gen.Secret("db", corev1.SecretTypeOpaque, map[string][]byte{"pin": []byte("1")})
	held, of := content.FromSecret(source), gen.Source("secret/db")
	key, made := theKey(t, 'a')
	name := content.RevisionName("db", key.Hash(of, held.Hash()), 0)
	digests, _ := key.Digests(of, held.Digests()).Text()
	pinned := gen.Secret(name, corev1.SecretTypeOpaque, source.Data)
	pinned.Immutable, pinned.Labels = new(true), map[string]string{keys.Content: string(key.Hash(of, held.Hash()))}
	pinned.Annotations = map[string]string{
		keys.SourceName: "db", keys.Number: "1", keys.KeyDigests: digests, keys.SourceVersion: string(source.UID) + "/" + source.ResourceVersion,
	}
	other := content.FromSecret(gen.Secret("db", corev1.SecretTypeOpaque, map[string][]byte{"pin": []byte("2")}))
	for sum, verdict := range map[string]plan.Verdict{held.Digests().Sum(true, nil): plan.InSync, other.Digests().Sum(true, nil): plan.Advanced} {
		d := gen.Deployment("web", gen.Tracking("all"), gen.Annotated(keys.RestartOn, "secret/db"), gen.Template(gen.Volume("secret/db")), gen.Pinned("secret/db="+name+"@1"))
		d.Spec.Template.Annotations[keys.Hashes] = "secret/db=" + sum + "@1"
		w := newAdmissionWorld(t, workload.Deployment, source, pinned, made)
		w.Options.Secrets = true
		seen, err := w.observe(t.Context(), d, view{reader: w.client})
		if err != nil {
			t.Fatal(err)
		}
		want := seen.decide()
		if got := want.hashes.Decisions[0].Verdict; got != verdict || want.pins.Decisions[0].Verdict != plan.InSync {
			t.Errorf("%s is %s, want %s; the pin is %s", sum, got, verdict, want.pins.Decisions[0].Verdict)
		}
	}
}

// What a request states with a lost key is left to the reconciler, which can say so in an event.
func TestARequestKeepsAHashWhoseKeyIsLost(t *testing.T) {
	other, _ := theKey(t, 'b')
	_, made := theKey(t, 'a')
	stamped := "secret/db=" + other.Sum(gen.Source("secret/db"), "x") + "@1"
	d := gen.Deployment("web", gen.Annotated(keys.RestartOn, "secret/db"))
	d.Spec.Template.Annotations = map[string]string{keys.Hashes: stamped}
	w := newAdmissionWorld(t, workload.Deployment, gen.Secret("db", corev1.SecretTypeOpaque, map[string][]byte{"pin": []byte("1")}), made)
	w.Options.Secrets = true
	got := w.admitted(t, d, nil, false).(*appsv1.Deployment)
	if got.Spec.Template.Annotations[keys.Hashes] != stamped || got.Annotations[keys.Hashes] != "" {
		t.Errorf("the template states %v, the workload %v", got.Spec.Template.Annotations, got.Annotations)
	}
}

// A dry run makes nothing, a namespace without Secrets needs no key, and none is taken from a ConfigMap.
func TestAKeyIsMadeOnlyWhereItIsNeeded(t *testing.T) {
	for name, test := range map[string]struct {
		source string
		dryRun bool
		makes  bool
	}{
		"a Secret": {"secret/db", false, true}, "a Secret, in a dry run": {"secret/db", true, false}, "a ConfigMap": {"configmap/app", false, false},
		"a Secret that is not there": {"secret/none", false, false}, "the key itself": {"secret/" + keys.KeySecret, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAdmissionWorld(t, workload.Deployment, gen.Secret("db", corev1.SecretTypeOpaque, map[string][]byte{"pin": []byte("1")}), gen.App("a"))
			w.Options.Secrets = true
			if _, _, err := w.ask(t.Context(), gen.Deployment("web", gen.Annotated(keys.RestartOn, test.source)), nil, test.dryRun); err != nil {
				t.Fatal(err)
			}
			secrets := &corev1.SecretList{}
			if err := w.client.List(t.Context(), secrets); err != nil {
				t.Fatal(err)
			}
			if makes := len(secrets.Items) > 1; makes != test.makes {
				t.Errorf("made: %t", makes)
			}
		})
	}
}
