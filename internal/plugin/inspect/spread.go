package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"confrev.io/confrev/internal/plugin/printer"
	"confrev.io/confrev/internal/plugin/session"
	"confrev.io/confrev/internal/view"
)

// spreads shows how far changes to sources have spread: `status` with names of sources.
func (o *statusOptions) spreads(ctx context.Context, v *view.View) error {
	if !o.watch && !o.wait {
		list, err := v.Spreads(ctx, o.which.Objects)
		if err != nil {
			return err
		}
		return o.showSpreads(list)
	}
	if o.timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, o.timeout)
		defer stop()
	}
	var last *view.SpreadList
	err := v.FollowSpreads(ctx, o.which.Objects, func(list *view.SpreadList) (bool, error) {
		before := last
		last = list
		if o.wait {
			return list.Done() || list.NeedsAction(), nil
		}
		return false, o.redrawSpreads(before, list)
	})
	return o.endSpreads(ctx, last, err)
}

func (o *statusOptions) endSpreads(ctx context.Context, last *view.SpreadList, err error) error {
	switch {
	case timedOut(ctx, err) && last != nil:
		return session.ExitStatus{Status: statusNotYet, Err: fmt.Errorf("timed out after %s: %s", o.timeout, spreadLeft(last))}
	case err != nil || last == nil:
		return err
	}
	err = o.showSpreads(last)
	if status, ended := errors.AsType[session.ExitStatus](err); ended {
		status.Err = fmt.Errorf("%s; this does not end without action", spreadLeft(last))
		return status
	}
	return err
}

// redrawSpreads draws a list that has changed again on a terminal, and elsewhere prints it below the last one.
func (o *statusOptions) redrawSpreads(before, list *view.SpreadList) error {
	if equality.Semantic.DeepEqual(before, list) {
		return nil
	}
	if printer.Terminal(o.Out) && o.IsTable() {
		if err := o.clear(); err != nil {
			return err
		}
	}
	return o.printSpreads(list)
}

// spreadLeft returns how far each source is.
func spreadLeft(list *view.SpreadList) string {
	var all []string
	for _, s := range list.Items {
		if s.State != view.Complete {
			all = append(all, strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", s.Source, s.State, s.Message), ": "))
		}
	}
	return strings.Join(first(all, shownLeft, "and %d more"), "; ")
}

func (o *statusOptions) showSpreads(list *view.SpreadList) error {
	o.PrintNotes(list.Notes)
	if err := o.printSpreads(list); err != nil {
		return err
	}
	if list.Done() {
		return nil
	}
	status := statusNotYet
	for _, s := range list.Items {
		if s.State == view.Stopped {
			status = statusFailed
		}
	}
	return session.ExitStatus{Status: status}
}

func (o *statusOptions) printSpreads(list *view.SpreadList) error {
	if o.IsTable() {
		for _, s := range list.Items {
			if err := headline(o.Out, s); err != nil {
				return err
			}
		}
	}
	return o.Print(o.Out, list, spreadTable(list), false)
}

// barWidth is the length of a full progress bar.
const barWidth = 24

// headline prints how far a source's change is as a whole.
func headline(out io.Writer, s view.SpreadStatus) error {
	text := fmt.Sprintf("%s: ", s.Source)
	if s.Revision != nil {
		text += fmt.Sprintf("revision %d is ", s.Revision.Number)
	}
	text += string(s.State)
	if s.Members > 0 {
		text += fmt.Sprintf(", %d of %d vouch for it", s.Vouched, s.Members)
	}
	if len(s.Waves) > 1 {
		text += fmt.Sprintf(", wave %d of %d", s.Wave, s.Waves[len(s.Waves)-1].Wave)
	}
	if s.MaxRolling > 0 {
		text += fmt.Sprintf(", %d of at most %d in the middle of it", s.InFlight, s.MaxRolling)
	}
	if n := len(s.FirstPins); n > 0 {
		text += fmt.Sprintf(", %d first pins to come or in the middle", n)
		if s.FirstPinsAtOnce > 0 {
			text += fmt.Sprintf(", at most %d at a time", s.FirstPinsAtOnce)
		}
	}
	if s.Message != "" {
		text += "; " + s.Message
	}
	if printer.Terminal(out) && s.Members > 0 {
		done := barWidth * s.Vouched / s.Members
		moving := barWidth * (s.Vouched + s.InFlight) / s.Members
		text = strings.Repeat("█", done) + strings.Repeat("▒", moving-done) + strings.Repeat("░", barWidth-moving) + " " + text
	}
	_, err := fmt.Fprintln(out, text)
	return err
}

func spreadTable(list *view.SpreadList) *metav1.Table {
	table := &metav1.Table{ColumnDefinitions: printer.Columns([]string{"Source", "Wave", "Workload", printer.StateColumn, "Until", "Message"})}
	for _, s := range list.Items {
		about := s.Metadata()
		add := func(wave string, members []view.MemberStatus) {
			for _, m := range members {
				until := "-"
				if m.Until != nil {
					until = m.Until.UTC().Format(time.RFC3339)
				}
				table.Rows = append(table.Rows, printer.Row(about, s.Source, wave, m.Workload, string(m.Stage), until, printer.OrDash(m.Message)))
			}
		}
		for _, wave := range s.Waves {
			add(fmt.Sprint(wave.Wave), wave.Members)
		}
		add("-", s.Apart)
		add("first", s.FirstPins)
	}
	return table
}
