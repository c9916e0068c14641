package plan_test

import (
	"testing"

	"confrev.io/confrev/internal/content"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/podspec"
)

// Rule 3: nothing happens unless something that the workload uses changed.
func TestRule3NothingMovesWithoutUsedChange(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"pinned to the present content": {
			content: "a", revisions: "a@1", pins: "a@1", holders: []string{"a@1"},
			verdict: plan.InSync, to: "a@1", current: "a@1",
		},
		"a key that it does not use changed": {
			use: useKey, content: "a2", revisions: "a@1", pins: "a@1", holders: []string{"a@1"},
			verdict: plan.InSync, to: "a@1", current: "a2@2",
		},
		"a key that it does not use changed, and another workload rolled that out": {
			use: useKey, content: "a2", revisions: "a@1 a2@2", pins: "a@1", holders: []string{"a@1"},
			verdict: plan.InSync, to: "a@1", current: "a2@2",
		},
		"an optional key that it uses and that no one has": {
			use: useOptKey, content: "k", revisions: "k@1", pins: "k@1", holders: []string{"k@1"},
			verdict: plan.InSync, to: "k@1", current: "k@1",
		},
		"a key changed, and it uses all of them": {
			content: "a2", revisions: "a@1", pins: "a@1", holders: []string{"a@1"},
			verdict: plan.Advanced, to: "a2@2", current: "a2@2",
		},
		"the key that it uses changed": {
			use: useKey, content: "b", revisions: "a@1", pins: "a@1", holders: []string{"a@1"},
			verdict: plan.Advanced, to: "b@2", current: "b@2",
		},
		"a key that it uses optionally went away": {
			use: useOptKey, content: "k", revisions: "a@1", pins: "a@1", holders: []string{"a@1"},
			verdict: plan.Advanced, to: "k@2", current: "k@2",
		},
		"the source was deleted and made again with the same content": {
			content: "a", revisions: "a@1", pins: "a@1", holders: []string{"a@1"},
			verdict: plan.InSync, to: "a@1", current: "a@1",
		},
		"the number of its revision was raised since": {
			content: "a", revisions: "a@7", pins: "a@1", holders: []string{"a@1"},
			verdict: plan.InSync, to: "a@1", current: "a@7",
		},
		"confrev starts again and no holder is known yet": {
			content: "a", revisions: "a@1", pins: "a@1",
			verdict: plan.InSync, to: "a@1", current: "a@1",
		},
	})
}

// Rule 4: a tracked source without a pin is pinned at once; other pins advance, or are held.
func TestRule4PinAndAdvance(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"the first pin of a new workload": {
			content: "a", verdict: plan.Pinned, to: "a@1", current: "a@1",
		},
		"the first pin to a revision that another workload has": {
			content: "b", revisions: "a@1 b@2", verdict: plan.Pinned, to: "b@2", current: "b@2",
		},
		"the first pin of a workload that runs already": {
			content: "a", holders: []string{"", ""}, verdict: plan.Pinned, to: "a@1", current: "a@1",
		},
		"an advance to content that is new": {
			content: "b", revisions: "a@1", pins: "a@1", holders: []string{"a@1"},
			verdict: plan.Advanced, to: "b@2", current: "b@2",
		},
		"an advance to a revision that another workload has": {
			content: "b", revisions: "a@1 b@2", pins: "a@1", holders: []string{"a@1"},
			verdict: plan.Advanced, to: "b@2", current: "b@2",
		},
		"an advance over a revision that only others rolled out": {
			content: "c", revisions: "a@1 b@2 c@3", pins: "a@1", holders: []string{"a@1"},
			verdict: plan.Advanced, to: "c@3", current: "c@3",
		},
		"a template that never rolled out because the workload is paused": {
			content: "c", revisions: "a@1 b@2", pins: "b@2", holders: []string{"a@1"},
			verdict: plan.Advanced, to: "c@3", current: "c@3",
		},
		"a pin to a revision that is lost": {
			content: "b", pins: "a@1", holders: []string{"a@1"},
			verdict: plan.Advanced, to: "b@2", current: "b@2",
		},
		"a pin of a workload without holders": {
			content: "b", revisions: "a@1", pins: "a@1",
			verdict: plan.Advanced, to: "b@2", current: "b@2",
		},
		"a pin that is lost while the workload was in sync comes back": {
			content: "b", revisions: "a@1 b@2", holders: []string{"a@1", "b@2", ""},
			verdict: plan.Pinned, to: "b@2", current: "b@2",
		},
		"a pin that is lost while the source changed goes to the new content": {
			content: "c", revisions: "a@1 b@2", holders: []string{"a@1", "b@2", ""},
			verdict: plan.Pinned, to: "c@3", current: "c@3",
		},
		"an undo to a template from before confrev": {
			content: "b", revisions: "a@1 b@2", holders: []string{"a@1", "b@2", ""},
			verdict: plan.Pinned, to: "b@2", current: "b@2",
		},
	})
}

func TestRule4Held(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"after an undo": {
			content: "b", revisions: "a@1 b@2", pins: "a@1", holders: []string{"b@2", "a@1"},
			verdict: plan.Held, to: "a@1", note: "b@2", current: "b@2",
		},
		"after an undo over several revisions": {
			content: "c", revisions: "a@1 b@2 c@3", pins: "a@1", holders: []string{"b@2", "c@3", "a@1"},
			verdict: plan.Held, to: "a@1", note: "c@3", current: "c@3",
		},
		"after an undo, and then a change to the image": {
			content: "b", revisions: "a@1 b@2", pins: "a@1", held: "b@2", holders: []string{"b@2", "a@1", "a@1"},
			verdict: plan.Held, to: "a@1", note: "b@2", current: "b@2",
		},
		"after an undo that no holder shows yet": {
			content: "b", revisions: "a@1 b@2", pins: "a@1", holders: []string{"a@1", "b@2"},
			verdict: plan.Held, to: "a@1", note: "b@2", current: "b@2",
		},
		"when the holders that show it are pruned, by the note": {
			content: "b", revisions: "a@1", pins: "a@1", held: "b@2", holders: []string{"a@1"},
			verdict: plan.Held, to: "a@1", note: "b@2", current: "b@2",
		},
		"when the holders vanished altogether, by the note": {
			content: "b", revisions: "a@1", pins: "a@1", held: "b@2",
			verdict: plan.Held, to: "a@1", note: "b@2", current: "b@2",
		},
		"when the note is gone, by the holders": {
			content: "b", revisions: "a@1 b@2", pins: "a@1", holders: []string{"b@2", "a@1"},
			verdict: plan.Held, to: "a@1", note: "b@2", current: "b@2",
		},
		"when undo restored an old note, by the holders": {
			content: "c", revisions: "a@1 b@2 c@3", pins: "a@1", held: "b@2", holders: []string{"b@2", "c@3", "a@1"},
			verdict: plan.Held, to: "a@1", note: "c@3", current: "c@3",
		},
		"when a key that it does not use changed": {
			use: useKey, content: "b2", revisions: "a@1 b@2", pins: "a@1", held: "b@2", holders: []string{"b@2", "a@1"},
			verdict: plan.Held, to: "a@1", note: "b@2", current: "b2@3",
		},
		"when another workload pins the same content again": {
			content: "b", revisions: "a@1 b@2", pins: "a@1", held: "b@2", holders: []string{"b@2", "a@1"},
			verdict: plan.Held, to: "a@1", note: "b@2", current: "b@2",
		},
		"until the source changes": {
			content: "c", revisions: "a@1 b@2", pins: "a@1", held: "b@2", holders: []string{"b@2", "a@1"},
			verdict: plan.Advanced, to: "c@3", current: "c@3",
		},
		"until the source changes, and uses no pruned number again": {
			content: "c", revisions: "a@1", pins: "a@1", held: "b@2", holders: []string{"a@1"},
			verdict: plan.Advanced, to: "c@3", current: "c@3",
		},
		"until the source has the content that the workload is on": {
			content: "a", revisions: "a@1 b@2", pins: "a@1", held: "b@2", holders: []string{"b@2", "a@1"},
			verdict: plan.InSync, to: "a@1", current: "a@3", note: "b@2 ended",
		},
		"until someone rolls it forward": {
			content: "b", revisions: "a@1 b@2", pins: "b@2", held: "b@2", holders: []string{"a@1", "b@2"},
			verdict: plan.InSync, to: "b@2", current: "b@2",
		},
		"when kubectl replace took the pin away, it comes back held": {
			content: "b", revisions: "a@1 b@2", held: "b@2", holders: []string{"b@2", "a@1", ""},
			verdict: plan.Held, to: "a@1", note: "b@2", current: "b@2",
		},
		"when kubectl replace took the note away as well": {
			content: "b", revisions: "a@1 b@2", holders: []string{"b@2", "a@1", ""},
			verdict: plan.Held, to: "a@1", note: "b@2", current: "b@2",
		},
		"but not when the pin was removed and its revision is lost": {
			content: "b", revisions: "b@2", held: "b@2", holders: []string{"b@2", "a@1", ""},
			verdict: plan.Pinned, to: "b@2", current: "b@2",
		},
		"but not by a note of content that the source has no more": {
			content: "c", revisions: "a@1 b@2", pins: "a@1", held: "b@2", holders: []string{"a@1"},
			verdict: plan.Advanced, to: "c@3", current: "c@3",
		},
		"but not by a note about the pin that the newest holder has, when the template has another": {
			content: "b", revisions: "a@2 b@3 c@1", pins: "c@1", held: "b@3", noteOn: "a@2", holders: []string{"a@2"},
			verdict: plan.Advanced, to: "b@3", current: "b@3",
		},
		"but not when it had other content after that, of which the revision is deleted": {
			content: "b", revisions: "a@1", pins: "a@1", held: "b@2", holders: []string{"c@3", "a@1"},
			verdict: plan.Advanced, to: "b@4", current: "b@4",
		},
		"but not by a lying note that undo restored, when the source came back to that content": {
			content: "b", revisions: "a@1 b@4 c@3", pins: "c@3", held: "b@2", holders: []string{"b@2", "c@3"},
			verdict: plan.Advanced, to: "b@4", current: "b@4",
		},
	})
}

// Rule 5: numbers.
func TestRule5Numbers(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"content that comes back gets a new number, which is new to a workload on the other": {
			content: "a", revisions: "a@1 b@2", pins: "b@2", holders: []string{"a@1", "b@2"},
			verdict: plan.Advanced, to: "a@3", current: "a@3",
		},
		"the same when the number was raised already": {
			content: "a", revisions: "a@3 b@2", pins: "b@2", holders: []string{"a@1", "b@2"},
			verdict: plan.Advanced, to: "a@3", current: "a@3",
		},
		"content that comes back twice": {
			content: "b", revisions: "a@3 b@2", pins: "a@3", holders: []string{"a@1", "b@2", "a@3"},
			verdict: plan.Advanced, to: "b@4", current: "b@4",
		},
		"a rollback to its first number is held": {
			content: "b", revisions: "a@1 b@2", pins: "a@1", holders: []string{"b@2", "a@1"},
			verdict: plan.Held, to: "a@1", note: "b@2", current: "b@2",
		},
		"a rollback after content came back is held by the new number": {
			content: "a", revisions: "a@3 b@2", pins: "b@2", holders: []string{"a@1", "a@3", "b@2"},
			verdict: plan.Held, to: "b@2", note: "a@3", current: "a@3",
		},
		"two writers gave the same number to different contents, and this one is on its own": {
			content: "b", revisions: "b@2 c@2", pins: "b@2", holders: []string{"b@2"},
			verdict: plan.InSync, to: "b@2", current: "b@3",
		},
		"two writers gave the same number, and the source has the other's content": {
			content: "c", revisions: "b@2 c@2", pins: "b@2", holders: []string{"b@2"},
			verdict: plan.Advanced, to: "c@3", current: "c@3",
		},
		"two writers gave the same number, and a rollback is held": {
			content: "b", revisions: "a@1 b@2 c@2", pins: "a@1", holders: []string{"b@2", "a@1"},
			verdict: plan.Held, to: "a@1", note: "b@2", current: "b@3",
		},
		"the note has the highest number that was rolled out": {
			content: "b", revisions: "a@1 b@3", pins: "a@1", held: "b@2", holders: []string{"b@2", "b@3", "a@1"},
			verdict: plan.Held, to: "a@1", note: "b@3", current: "b@3",
		},
		"numbers of deleted revisions live on in the template": {
			content: "b", pins: "a@6", verdict: plan.Advanced, to: "b@7", current: "b@7",
		},
		"numbers of deleted revisions live on in holders": {
			content: "b", revisions: "a@1", pins: "a@1", holders: []string{"c@5", "a@1"},
			verdict: plan.Advanced, to: "b@6", current: "b@6",
		},
		"numbers of deleted revisions live on in the note": {
			content: "b", revisions: "a@1", pins: "a@1", held: "c@5", verdict: plan.Advanced, to: "b@6", current: "b@6",
		},
		"a deleted revision of the present content keeps its number": {
			content: "b", revisions: "a@1", holders: []string{"a@1", "b@2"}, verdict: plan.Pinned, to: "b@2", current: "b@2",
		},
		"a revision whose number cannot be read has none": {
			content: "a", revisions: "a@0", verdict: plan.Pinned, to: "a@1", current: "a@1",
		},
		"a gap between numbers means nothing": {
			content: "b", revisions: "a@41", pins: "a@41", holders: []string{"a@41"},
			verdict: plan.Advanced, to: "b@42", current: "b@42",
		},
	})
}

// Rule 6: what is missing.
func TestRule6Missing(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"a required source that never was": {verdict: plan.SourceMissing},
		"a required source that was deleted, so the pin stays": {
			revisions: "a@1", pins: "a@1", holders: []string{"a@1"}, verdict: plan.SourceMissing, to: "a@1",
		},
		"a source that was deleted while the workload was held, so the note stays": {
			revisions: "a@1 b@2", pins: "a@1", held: "b@2", holders: []string{"a@1"},
			verdict: plan.SourceMissing, to: "a@1", note: "b@2",
		},
		"an optional source that appears is rolled out": {
			use: useOptional, content: "a", holders: []string{""}, verdict: plan.Pinned, to: "a@1", current: "a@1",
		},
		"an optional key that appears is rolled out": {
			use: useOptKey, content: "a", revisions: "k@1", pins: "k@1", holders: []string{"k@1"},
			verdict: plan.Advanced, to: "a@2", current: "a@2",
		},
		"an optional key that is absent": {
			use: useOptKey, content: "k", verdict: plan.Pinned, to: "k@1", current: "k@1",
		},
		"a required key is missing and there is no pin": {
			use: useKey, content: "k", verdict: plan.KeyMissing, current: "k@1", missing: []string{"used"},
		},
		"a required key is missing, so the pin stays": {
			use: useKey, content: "k", revisions: "a@1", pins: "a@1", holders: []string{"a@1"},
			verdict: plan.KeyMissing, to: "a@1", current: "k@2", missing: []string{"used"},
		},
		"a required key is missing while the workload is held, so the note stays": {
			use: useKey, content: "k", revisions: "a@1 b@2", pins: "a@1", held: "b@2", holders: []string{"b@2", "a@1"},
			verdict: plan.KeyMissing, to: "a@1", note: "b@2", current: "k@3", missing: []string{"used"},
		},
		"a required key that comes back with another value": {
			use: useKey, content: "b", revisions: "a@1", pins: "a@1", holders: []string{"a@1"},
			verdict: plan.Advanced, to: "b@2", current: "b@2",
		},
		"a source that could not be observed keeps its pin and its note": {
			content: "?", pins: "a@1", held: "b@2", verdict: plan.Unknown, to: "a@1", note: "b@2",
		},
		"a source that could not be observed gets no pin": {content: "?", verdict: plan.Unknown},
	})
}

// Rule 6: where every use is optional, the absence of a source is empty content.
func TestRule6AbsenceIsEmptyContent(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"one that never was is no reason to change anything": {use: useOptional, verdict: plan.Absent, current: "none@1"},
		"it is pinned with a change to the template": {
			use: useOptional, deploys: true, verdict: plan.Absent, to: "none@1", current: "none@1",
		},
		"a template that lost a pin gets one at once": {
			use: useOptional, revisions: "a@1", holders: []string{"a@1", ""}, verdict: plan.Pinned, to: "none@2", current: "none@2",
		},
		"a deletion rolls out": {
			use: useOptional, revisions: "a@1", pins: "a@1", holders: []string{"a@1"}, verdict: plan.Advanced, to: "none@2", current: "none@2",
		},
		"and has": {
			use: useOptional, revisions: "a@1 none@2", pins: "none@2", holders: []string{"a@1", "none@2"},
			verdict: plan.InSync, to: "none@2", current: "none@2",
		},
		"one that was empty is no other than one that is not there": {
			use: useOptional, revisions: "none@1", pins: "none@1", holders: []string{"none@1"}, verdict: plan.InSync, to: "none@1", current: "none@1",
		},
		"of a key that it does not have it is no change": {
			use: useOptKey, revisions: "k@1", pins: "k@1", holders: []string{"k@1"}, verdict: plan.InSync, to: "k@1", current: "none@2",
		},
		"of a key that it has it is": {
			use: useOptKey, revisions: "a@1", pins: "a@1", holders: []string{"a@1"}, verdict: plan.Advanced, to: "none@2", current: "none@2",
		},
		"an undo of the deletion holds": {
			use: useOptional, revisions: "a@1 none@2", pins: "a@1", holders: []string{"none@2", "a@1"},
			verdict: plan.Held, to: "a@1", note: "none@2", current: "none@2",
		},
		"until the source appears with something else": {
			use: useOptional, content: "b", revisions: "a@1 none@2", pins: "a@1", held: "none@2", holders: []string{"none@2", "a@1"},
			verdict: plan.Advanced, to: "b@3", current: "b@3",
		},
		"and is in sync when it appears with the same": {
			use: useOptional, content: "a", revisions: "a@1 none@2", pins: "a@1", held: "none@2", holders: []string{"none@2", "a@1"},
			verdict: plan.InSync, to: "a@1", note: "none@2 ended", current: "a@3",
		},
		"one that comes back rolls out": {
			use: useOptional, content: "a", revisions: "a@1 none@2", pins: "none@2", holders: []string{"a@1", "none@2"},
			verdict: plan.Advanced, to: "a@3", current: "a@3",
		},
		"an undo to the time without it holds": {
			use: useOptional, content: "b", revisions: "none@2 b@3", pins: "none@2", holders: []string{"b@3", "none@2"},
			verdict: plan.Held, to: "none@2", note: "b@3", current: "b@3",
		},
		"which ends when it is deleted again, as that is what the pin says": {
			use: useOptional, revisions: "none@2 b@3", pins: "none@2", held: "b@3", holders: []string{"b@3", "none@2"},
			verdict: plan.InSync, to: "none@2", note: "b@3 ended", current: "none@4",
		},
		"a pin that the template lost while it was held comes back": {
			use: useOptional, revisions: "a@1 none@2", held: "none@2", holders: []string{"none@2", "a@1", ""},
			verdict: plan.Held, to: "a@1", note: "none@2", current: "none@2",
		},
		"what is required as well stays": {
			use: podspec.Use{Source: app, All: true, Keys: []string{"used"}, Required: true}, revisions: "a@1", pins: "a@1", deploys: true,
			verdict: plan.SourceMissing, to: "a@1",
		},
		"what is required stays without content too": {
			revisions: "none@1", pins: "none@1", deploys: true, verdict: plan.SourceMissing, to: "none@1",
		},
	})
}

// Rule 6: the absence of one source is pinned along with what another changes, and hurries nothing.
func TestRule6AbsenceIsPinnedWithTheNextChange(t *testing.T) {
	in := planCase{use: useAll, content: "b", revisions: "a@1", pins: "a@1", holders: []string{"a@1"}}.input()
	in.Uses = append(in.Uses, podspec.Use{Source: web, All: true})
	in.Sources[web] = plan.Source{Hash: "v1-none", Digests: content.Digests{}, Name: "web-none"}
	p := makePlan(t, in)
	if want := (pin.Pin{Revision: "web-none", Number: 1}); p.Pins[web] != want || p.Urgent() {
		t.Errorf("pins %s, urgent: %v", p.Pins, p.Urgent())
	}
	in.Occasion = plan.Request
	if p := makePlan(t, in); len(p.Pins) != 1 {
		t.Errorf("nothing else changes, and the pins are %s", p.Pins)
	}
}

// Mode restart: a deletion is no restart.
func TestAbsenceIsNoReasonToRestart(t *testing.T) {
	in := planCase{use: useOptional, pins: "a@1", holders: []string{"a@1"}}.input()
	in.Live = true
	if p := makePlan(t, in); p.Changed() {
		t.Errorf("restarted: %+v", p.Decisions)
	}
}

// Rule 4: a note is about one pin, knows what the workload used of the content that it was rolled back from, and continues to
// say that a hold has ended as long as the pin is the same.
func TestRule4Notes(t *testing.T) {
	runPlanCases(t, map[string]planCase{
		"it holds when the revision is deleted and an unused key changed": {
			use: useKey, content: "b2", revisions: "a@1", pins: "a@1", held: "b@2", holders: []string{"a@1"},
			verdict: plan.Held, to: "a@1", note: "b@2", current: "b2@3",
		},
		"but not when a used key changed": {
			use: useKey, content: "c", revisions: "a@1", pins: "a@1", held: "b@2", holders: []string{"a@1"},
			verdict: plan.Advanced, to: "c@3", current: "c@3",
		},
		"one about another pin is void": {
			content: "b", revisions: "a@1", pins: "a@1", held: "b@2", noteOn: "c@3", holders: []string{"a@1"},
			verdict: plan.Advanced, to: "b@2", current: "b@2",
		},
		"one that says nothing of the content from which it was rolled back is void": {
			content: "b", revisions: "a@1", pins: "a@1", held: "a@2", holders: []string{"a@1"},
			verdict: plan.Advanced, to: "b@3", current: "b@3",
		},
		"it knows the pin that the template has lost, when all holders are pruned": {
			content: "b", revisions: "a@1 b@2", held: "b@2", noteOn: "a@1", holders: []string{""},
			verdict: plan.Held, to: "a@1", note: "b@2", current: "b@2",
		},
		"the hold ends while the pin stays, when only unused keys differ": {
			use: useKey, content: "a2", revisions: "a@1 b@2", pins: "a@1", held: "b@2", holders: []string{"b@2", "a@1"},
			verdict: plan.InSync, to: "a@1", note: "b@2 ended", current: "a2@3",
		},
		"it ends also where it was not noted": {
			use: useKey, content: "a2", revisions: "a@1 b@2", pins: "a@1", holders: []string{"b@2", "a@1"},
			verdict: plan.InSync, to: "a@1", note: "b@2 ended", current: "a2@3",
		},
		"once it has ended, the content that was rolled back is new": {
			use: useKey, content: "b2", revisions: "a@1 b@2", pins: "a@1", held: "b@2 ended", holders: []string{"b@2", "a@1"},
			verdict: plan.Advanced, to: "b2@3", current: "b2@3",
		},
		"and has a new number, if it is the same": {
			content: "b", revisions: "a@1 b@2", pins: "a@1", held: "b@2 ended", holders: []string{"b@2", "a@1"},
			verdict: plan.Advanced, to: "b@3", current: "b@3",
		},
		"an old note of a hold that has ended says nothing of a later one": {
			content: "b", revisions: "a@1 b@3", pins: "a@1", held: "b@2 ended", holders: []string{"b@2", "b@3", "a@1"},
			verdict: plan.Held, to: "a@1", note: "b@3", current: "b@3",
		},
	})
}

// Rule 4: a change to the source ends a hold, also where the pin must not move yet.
func TestRule4AHoldEndsWhileTheWorkloadWaits(t *testing.T) {
	c := planCase{content: "c", revisions: "a@1 b@2", pins: "a@1", held: "b@2", holders: []string{"b@2", "a@1"}}
	in := c.input()
	in.Occasion = plan.Request
	p := makePlan(t, in)
	if d := p.Decisions[0]; d.Verdict != plan.Waiting || !p.Held[app].Ended {
		t.Fatalf("it is %s, with the notes %s", d.Verdict, p.Held)
	}
	back := planCase{content: "b", revisions: "a@1 b@2", pins: "a@1", holders: []string{"b@2", "a@1"}}.input()
	back.Occasion, back.Held = plan.Request, p.Held
	if d := makePlan(t, back).Decisions[0]; d.Verdict != plan.Waiting {
		t.Errorf("the content that was rolled back came back, and it is %s", d.Verdict)
	}
}
