package plugin

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// spelledOut turns configmap-attacher's flags with one dash into those with two. The flags are those that may be before the verb.
func spelledOut(args []string, flags *pflag.FlagSet) []string {
	spelled := slices.Clone(args)
	for i, arg := range spelled {
		name, isFlag := strings.CutPrefix(arg, "-")
		name, _, _ = strings.Cut(name, "=")
		if isFlag && slices.Contains([]string{"rollout", "namespace", "configmaps"}, name) {
			spelled[i] = "-" + arg
		}
	}
	if verb(spelled, flags) != "attach" {
		return args
	}
	return spelled
}

// verb returns the first argument that is neither a flag nor a flag's value.
func verb(args []string, flags *pflag.FlagSet) string {
	for i := 0; i < len(args); i++ {
		name, isFlag := strings.CutPrefix(args[i], "-")
		if !isFlag {
			return args[i]
		}
		var flag *pflag.Flag
		if long, isLong := strings.CutPrefix(name, "-"); isLong {
			flag = flags.Lookup(long)
		} else if len(name) == 1 {
			flag = flags.ShorthandLookup(name)
		}
		if flag != nil && flag.NoOptDefVal == "" {
			i++
		}
	}
	return ""
}
