package optin

import (
	"fmt"
	"strings"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/quote"
)

// The limits of a setting that is a list. Each look at a workload reads all of it again, in every replica, and anyone who may annotate one
// object decides how long it is.
const (
	// maxItems is how many sources a list may name: as many as a template may have pins.
	maxItems = pin.MaxPins
	// maxItemText is how many bytes an item may have.
	maxItemText = 1024
	// maxListed is how many problems of one setting are listed.
	maxListed = 5
)

// problems is what is wrong with one setting. As an error, it lists the first few of them.
type problems struct {
	listed []string
	more   int
}

func (p *problems) add(err error) {
	if len(p.listed) == maxListed {
		p.more++
		return
	}
	p.listed = append(p.listed, err.Error())
}

// err returns the error; nil if nothing is wrong.
func (p *problems) err() error {
	if len(p.listed) == 0 {
		return nil
	}
	return p
}

// Error implements error.
func (p *problems) Error() string {
	text := strings.Join(p.listed, "; ")
	if p.more > 0 {
		text += fmt.Sprintf("; and %d more", p.more)
	}
	return text
}

// items returns the items of a list, as far as there may be so many and each may be so long, and adds what is beyond that to the problems.
// Empty items do not count.
func (p *problems) items(list string) []string {
	var items []string
	for item := range strings.SplitSeq(list, ",") {
		item = strings.TrimSpace(item)
		if item == "" {
			continue
		}
		if len(items) == maxItems {
			p.add(tooMany(maxItems))
			break
		}
		if err := checkLength(item); err != nil {
			p.add(err)
			continue
		}
		items = append(items, item)
	}
	return items
}

func tooMany(items int) error {
	return fmt.Errorf("it has more than %d items; the rest are ignored", items)
}

func checkLength(item string) error {
	if len(item) <= maxItemText {
		return nil
	}
	return fmt.Errorf("an item is longer than %d bytes: %s", maxItemText, quote.Text(item))
}
