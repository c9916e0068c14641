package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"confrev.io/confrev/internal/crash"
	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/plan"
	"confrev.io/confrev/internal/spread"
)

// ExaminePods lets the Fleet look at the pods of members that are in the middle of a change. pods is a reader that asks the API server.
func (f *Fleet) ExaminePods(pods client.Reader) { f.pods = pods }

const (
	// examineEvery is how often the pods of one member are looked at.
	examineEvery = time.Second
	// stableFor is the least that a container must run again before its earlier crashes count no longer.
	stableFor = 10 * time.Second
)

// moving are the stages in which pods start with the change.
var moving = []spread.Stage{spread.Rolling, spread.Baking, spread.Failed}

// Examines reports whether a survey has members whose pods must be looked at often: a crash has a consequence, and pods start with the change.
// The pods of those that wait for a person, such as a canary at a pause, are looked at whenever the change is.
func (f *Fleet) Examines(s *Survey) bool { return f.podsMatter(s) && s.Count(moving...) > 0 }

// podsMatter reports whether a crash has a consequence.
func (f *Fleet) podsMatter(s *Survey) bool {
	return f.pods != nil && s.Settings.OnFailure >= spread.StopIt
}

// PodsAgain returns when to look again at pods of workloads that take a change.
func (f *Fleet) PodsAgain(s *Survey) time.Duration { return max(examineEvery, f.Pause(s.Source)) }

// examine looks at the pods of members that are in the middle of a change, unless that was done a moment ago. It reports whether that has
// changed what is known.
func (f *Fleet) examine(ctx context.Context, s *Survey) (changed bool, err error) {
	c := f.change(s.Source)
	var errs []error
	for _, m := range s.Has() {
		w := s.Workloads[m.Name]
		if !slices.Contains(moving, m.Stage) && m.Stage != spread.Parked || w.standing.Template == nil || !c.isDue(m.Name, f.now()) {
			continue
		}
		why, err := f.whatCrashes(ctx, s, w)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		changed = c.crashes(m.Name, w.UID, why) || changed
	}
	return changed, errors.Join(errs...)
}

// crashes notes what fails in the pods of a member, unless another object has its name by now, and reports whether that is news.
func (c *change) crashes(name string, uid types.UID, why string) (news bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if news = c.objects[name] == uid && c.crashed[name] != why; news {
		c.crashed[name] = why
	}
	return news
}

// isNews reports whether pods cannot be looked at for another reason than a moment ago: without the right, that is so each time.
func (c *change) isNews(unread error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.unread
	if c.unread = ""; unread != nil {
		c.unread = unread.Error()
	}
	return c.unread != "" && c.unread != before
}

func (c *change) isDue(name string, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.examined[name]) < examineEvery {
		return false
	}
	c.examined[name] = now
	return true
}

// whatCrashes returns what fails in the pods of a workload that has the change.
func (f *Fleet) whatCrashes(ctx context.Context, s *Survey, w Workload) (string, error) {
	pods, err := f.podsOf(ctx, w)
	if err != nil {
		return "", err
	}
	of := w.standing
	return crash.Find(crash.Change{
		Template: of.Template, Since: of.Advance.At, Limit: cmp.Or(of.Crashes, crash.Default), Stable: max(stableFor, s.Settings.Bake),
	}, pods, f.now()), nil
}

// podsOf returns the pods that a workload owns, itself or through its holders: labels alone may be anyone's.
func (f *Fleet) podsOf(ctx context.Context, w Workload) ([]corev1.Pod, error) {
	obj := w.Engine.Kind.New()
	if err := w.Engine.Client.Get(ctx, w.Name, obj); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	all := &corev1.PodList{}
	// The API server answers version 0 from its memory.
	err := f.pods.List(ctx, all, client.InNamespace(w.Name.Namespace), client.MatchingLabelsSelector{Selector: w.Engine.Kind.PodSelector(obj)},
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: "0"}})
	if err != nil {
		return nil, fmt.Errorf("list the pods of %s %s: %w", w.Engine.Kind.Resource(), w.Name, err)
	}
	return slices.DeleteFunc(all.Items, func(pod corev1.Pod) bool {
		controller := metav1.GetControllerOfNoCopy(&pod)
		return controller == nil || !slices.Contains(w.standing.Owners, controller.UID)
	}), nil
}

// Stuck returns the pods of a StatefulSet that was rolled back from a change, and which its controller does not replace: they have the change,
// and are not ready (https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#forced-rollback).
func (f *Fleet) Stuck(ctx context.Context, s *Survey, member string) ([]corev1.Pod, error) {
	w := s.Workloads[member]
	if f.pods == nil || !w.Engine.Kind.Ordered || w.standing.Decision.Verdict != plan.Held || w.standing.Advance.To[s.Source.Source()].Revision != s.Current.Revision {
		return nil, nil
	}
	pods, err := f.podsOf(ctx, w)
	return slices.DeleteFunc(pods, func(pod corev1.Pod) bool {
		pins, err := pin.Parse(pod.Annotations[keys.Pins])
		return err != nil || pins[s.Source.Source()].Revision != s.Current.Revision || pod.DeletionTimestamp != nil || slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	}), err
}
