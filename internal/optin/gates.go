package optin

import (
	"fmt"

	"confrev.io/confrev/internal/keys"
	"confrev.io/confrev/internal/notice"
	"confrev.io/confrev/internal/pin"
	"confrev.io/confrev/internal/quote"
	"confrev.io/confrev/internal/waiting"
)

// GateKeys are the annotations and labels from which Gates reads.
var GateKeys = []string{keys.Advance, keys.FreezeUntil, keys.Window, keys.Deploys}

// The values of confrev.io/deploys.
const (
	deploysInclude = "include"
	deploysWait    = "wait"
)

// Gates returns what an object says about when pins may move, and what is wrong with it. whose is empty for the workload itself, and
// otherwise completes "annotation confrev.io/window": " of configmap/app". Annotations and labels must all permit a move.
func Gates(annotations, labels map[string]string, whose string) ([]waiting.Gate, []notice.Notice) {
	var gates []waiting.Gate
	var problems []notice.Notice
	complain := func(reason, by string, err error, consequence string) {
		problems = append(problems, notice.Warning(reason, pin.Source{}, "%s: %v; %s", by, err, consequence))
	}
	read := func(written map[string]string, what string) {
		includes := false
		if text, ok := written[keys.Deploys]; ok {
			if includes = text == deploysInclude; !includes && text != deploysWait {
				complain(InvalidDeploys, what+" "+keys.Deploys+whose, fmt.Errorf("%s is not known: want %s or %s", quote.Text(text), deploysInclude, deploysWait),
					"deploys wait")
			}
		}
		for _, setting := range []struct {
			key, reason string
			parse       func(text, by string) (waiting.Gate, error)
		}{
			{keys.Advance, InvalidAdvance, waiting.ParseAdvance}, {keys.FreezeUntil, InvalidFreeze, waiting.ParseFreeze},
			{keys.Window, InvalidWindow, waiting.ParseWindow},
		} {
			text, ok := written[setting.key]
			if !ok {
				continue
			}
			by := what + " " + setting.key + whose
			gate, err := setting.parse(text, by)
			if err != nil {
				complain(setting.reason, by, err, "until it is corrected, nothing advances")
			}
			if gate.Reason != "" {
				gate.Includes = includes && setting.key != keys.Advance
				gates = append(gates, gate)
			}
		}
	}
	read(annotations, "annotation")
	read(labels, "label")
	return gates, problems
}
