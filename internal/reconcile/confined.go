package reconcile

import (
	"errors"
	"time"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/revision"
)

// retryConfined is when to try again what the policy that confines confrev's own account refused: the API server may not know
// yet that a namespace opted in, and does not say that it is behind.
const retryConfined = time.Second

// refusedOnce returns how long to wait before a write that was refused is worth a warning; 0 when it was refused before, or was not
// refused at all.
func (m *memory) refusedOnce(err error) time.Duration {
	before := m.refused
	terminal, ok := errors.AsType[*notice.TerminalError](err)
	m.refused = ok && terminal.Reason == revision.ConfinementRefused
	if m.refused && !before {
		return retryConfined
	}
	return 0
}

// sayConfined turns a refusal of the write itself into a warning: trying again soon changes nothing.
func sayConfined(said []notice.Notice, err error) ([]notice.Notice, error) {
	if terminal, ok := errors.AsType[*notice.TerminalError](err); ok {
		return append(said, terminal.Notice), nil
	}
	return said, err
}
