package optin

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/quote"
)

// nameForm matches whole names: either one name, or all that match an expression.
type nameForm struct {
	name       string
	expression *regexp.Regexp
}

func (f nameForm) matches(name string) bool {
	if f.expression != nil {
		return f.expression.MatchString(name)
	}
	return f.name == name
}

// exactName returns the form of one name. Sources that are tracked by name are noted in the annotation of hashes, so a name that no object
// has would make all of that unreadable.
func exactName(name string) (nameForm, error) {
	if _, err := pin.ParseSource(pin.Source{Kind: pin.ConfigMap, Name: name}.String()); err != nil {
		return nameForm{}, fmt.Errorf("%s is not the name of a ConfigMap or Secret", quote.Text(name))
	}
	return nameForm{name: name}, nil
}

// The limits of a list of regular expressions, which each look at a workload compiles again, and of each of them.
const (
	maxExpressions    = 32
	maxExpressionText = 128
	// maxExpressionSteps is how many steps an expression may have once its repetitions are written out: "a{900}" is short, and has 900. Without
	// repetitions, hardly any has more steps than bytes.
	maxExpressionSteps = 128
)

// expressions reads a list of regular expressions, each of which matches a whole name.
func (c *Config) expressions(key, list string) []nameForm {
	var all []nameForm
	var wrong problems
	expressions := 0
	for _, item := range wrong.items(list) {
		read := exactName
		if regexp.QuoteMeta(item) != item {
			if expressions++; expressions > maxExpressions {
				continue
			}
			read = compileName
		}
		form, err := read(item)
		if err != nil {
			wrong.add(err)
			continue
		}
		all = append(all, form)
	}
	if expressions > maxExpressions {
		wrong.add(fmt.Errorf("it has more than %d regular expressions; the rest are ignored", maxExpressions))
	}
	c.complainOf(key, wrong)
	return all
}

// compileName returns the form of a regular expression that matches whole names. The expression must also be valid on its own: the anchors
// around it must not complete it.
func compileName(expression string) (nameForm, error) {
	if len(expression) > maxExpressionText {
		return nameForm{}, fmt.Errorf("a regular expression is longer than %d bytes: %s", maxExpressionText, quote.Text(expression))
	}
	if !isPlain(expression) {
		return nameForm{}, fmt.Errorf(`%s is too big a regular expression: want ASCII, without \p and \x`, quote.Text(expression))
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nameForm{}, fmt.Errorf("%s is not a regular expression", quote.Text(expression))
	}
	if stepsOf(parsed) > maxExpressionSteps {
		return nameForm{}, fmt.Errorf("%s is too big a regular expression: want at most %d steps once repetitions are written out", quote.Text(expression), maxExpressionSteps)
	}
	compiled, err := regexp.Compile("^(?:" + expression + ")$")
	return nameForm{expression: compiled}, err
}

// isPlain reports whether an expression names no characters other than those of ASCII. Names have no others, and a few bytes can name all of
// Unicode, which takes long to read where case does not count.
func isPlain(expression string) bool {
	return !strings.ContainsFunc(expression, func(r rune) bool { return r < ' ' || r > '~' }) &&
		!slices.ContainsFunc([]string{`\p`, `\P`, `\x`}, func(escape string) bool { return strings.Contains(expression, escape) })
}

// stepsOf returns how many steps an expression has once its repetitions are written out, as compiling it does.
func stepsOf(expression *syntax.Regexp) int {
	sum := 0
	for _, part := range expression.Sub {
		sum += stepsOf(part)
	}
	switch expression.Op {
	case syntax.OpLiteral:
		return len(expression.Rune)
	case syntax.OpConcat:
		return sum
	case syntax.OpRepeat:
		// The parser allows no more than a thousand of anything, so this does not overflow. An item has no comma, so the number is exact.
		return sum * max(expression.Max, 1)
	}
	return sum + 1
}
