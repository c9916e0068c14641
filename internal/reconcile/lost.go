package reconcile

import (
	"sync"

	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/revision"
)

// losses remembers the revisions that are lost: deleted while in use, and not recreated. The zero value is empty.
type losses struct {
	mu sync.Mutex
	of map[revision.Ref]*loss
}

// loss is a lost revision. None is reconciled twice at the same time, so only source, which events of other objects read, needs the lock.
type loss struct {
	// source is what the revision is of: its old content brings the revision back (rule 9).
	source pin.Source
	// reported are the latest warnings, so that each is sent once.
	reported notice.Reported
}

// note remembers that a revision of a source is lost, and returns what is known about that.
func (l *losses) note(ref revision.Ref, source pin.Source) *loss {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = map[revision.Ref]*loss{}
	}
	if l.of[ref] == nil {
		l.of[ref] = &loss{}
	}
	l.of[ref].source = source
	return l.of[ref]
}

func (l *losses) forget(ref revision.Ref) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.of, ref)
}

// from returns the lost revisions of a source. Hardly ever is any lost, so it looks at all.
func (l *losses) from(source revision.Ref) []revision.Ref {
	l.mu.Lock()
	defer l.mu.Unlock()
	var lost []revision.Ref
	for ref, known := range l.of {
		if ref.Namespace == source.Namespace && known.source == source.Source() {
			lost = append(lost, ref)
		}
	}
	return lost
}
