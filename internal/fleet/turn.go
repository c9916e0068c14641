package fleet

import (
	"cmp"
	"context"
	"time"

	"confrev.io/confrev/internal/optin"
	"confrev.io/confrev/internal/revision"
	"confrev.io/confrev/internal/rollout"
	"confrev.io/confrev/internal/spread"
	"confrev.io/confrev/internal/waiting"
)

// yieldedFor is how long others go before a member that gave its place back. It may still go if there is a place.
const yieldedFor = 30 * time.Second

// cannotTake is why others go before a member.
const cannotTake = "it could not take the change, and tries again"

// Turn returns what a workload waits for before it may take a change. It implements rollout.Others.
func (f *Fleet) Turn(ctx context.Context, asked rollout.Spreading, workload string) (waiting.Wait, error) {
	c := f.change(asked.Source)
	s, err := f.recent(ctx, c, asked)
	if err != nil {
		return waiting.Wait{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := s.member(workload)
	verdict, known := s.verdict(m)
	switch {
	case verdict == spread.Goes:
		// A dry run takes up no place.
		if !revision.IsProvisional(ctx) {
			c.admitted[workload] = f.now()
			m.Stage, m.Disturbed = spread.Rolling, false
		}
		return waiting.Wait{}, nil
	case !known && m != nil && m.Stage == spread.Rolling && (m.First || !s.Stopped):
		// It was let go already.
		return waiting.Wait{}, nil
	case !known && asked.FirstPin:
		// Those that were let go do not ask again before they have it.
		verdict = spread.NoPlace
	case !known && s.Stopped:
		verdict = spread.Stopped
	}
	until := time.Time{}
	if verdict == spread.Bakes {
		until = s.Wakes()
	}
	by, namespace := s.Settings.By, asked.Source.Namespace
	switch verdict {
	case spread.Stopped:
		return s.whyStopped(), nil
	case spread.EarlierStage:
		by, namespace = optin.ByAfter, s.Settings.Follows()
	}
	return waiting.Turn(cmp.Or(reasons[verdict], waiting.Wave), by, asked.Source.Text()+" -n "+namespace, until), nil
}

// GiveBack ends the turn of a workload that does not take the change after all. It implements rollout.Others.
func (f *Fleet) GiveBack(ctx context.Context, asked rollout.Spreading, workload string) {
	c := f.change(asked.Source)
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, admitted := c.admitted[workload]; !admitted || revision.IsProvisional(ctx) {
		return
	}
	delete(c.admitted, workload)
	c.yielded[workload] = f.now()
	if c.latest == nil {
		return
	}
	if m := c.latest.member(workload); m != nil && m.Stage == spread.Rolling {
		m.Stage, m.Why = spread.Later, cannotTake
	}
}

// yields makes others go before a member that waits if it gave its place back lately.
func (c *change) yields(m *spread.Member, now time.Time) {
	if m.Stage == spread.Waiting && !m.Disturbed && now.Sub(c.yielded[m.Name]) < yieldedFor {
		m.Stage, m.Why = spread.Later, cannotTake
	}
}

// member returns the workload of this name, if the change moves it or it gets its first pin; otherwise nil.
func (s *Survey) member(name string) *spread.Member {
	lists := [][]spread.Member{s.First}
	for _, wave := range s.Waves {
		lists = append(lists, wave.Members)
	}
	for _, list := range lists {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// verdict returns the verdict on a member that waits, or that others go before. It is false for any other.
func (s *Survey) verdict(m *spread.Member) (verdict spread.Verdict, known bool) {
	if m == nil {
		return "", false
	}
	if m.Stage == spread.Later && m.Why == cannotTake {
		m.Stage = spread.Waiting
		defer func() { m.Stage = spread.Later }()
	}
	return s.Of(m.Name)
}

// Reasons returns what the members wait for that have not had their turn.
func (s *Survey) Reasons() map[string]waiting.Reason {
	all := map[string]waiting.Reason{}
	for name, verdict := range s.Verdicts() {
		if verdict != spread.Goes {
			all[name] = reasons[verdict]
		}
	}
	return all
}

// reasons has what a member waits for. One that the survey does not know yet waits for its wave.
var reasons = map[spread.Verdict]waiting.Reason{
	spread.Stopped: waiting.Stopped, spread.EarlierStage: waiting.Stage, spread.LaterWave: waiting.Wave, spread.Bakes: waiting.Baking, spread.NoPlace: waiting.Budget,
}
