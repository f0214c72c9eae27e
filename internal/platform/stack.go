package platform

import (
	"slices"
	"strings"
	"unicode/utf8"

	"ingot/internal/base/fault"
)

// StackState is how far a stack is phased out.
type StackState string

// The states of a stack.
const (
	StackActive     StackState = "ACTIVE"
	StackDeprecated StackState = "DEPRECATED" // staging warns
	StackRestricted StackState = "RESTRICTED" // not for new apps
	StackDisabled   StackState = "DISABLED"   // no staging
)

var stackStates = []StackState{StackActive, StackRestricted, StackDeprecated, StackDisabled}

// CheckStack refuses a stack without a name or with an unknown state.
func CheckStack(s *Stack) error {
	if strings.TrimSpace(s.Name) == "" {
		return fault.Invalid("Name can't be blank")
	}
	for what, text := range map[string]string{"Name": s.Name, "Description": s.Description} {
		if utf8.RuneCountInString(text) > 250 {
			return fault.Invalid(what + " is too long (maximum is 250 characters)")
		}
	}
	if !slices.Contains(stackStates, s.State) {
		return fault.Invalid("State must be one of ACTIVE, RESTRICTED, DEPRECATED, DISABLED")
	}
	if len([]rune(s.StateReason)) > 1000 {
		return fault.Invalid("State reason is too long (maximum is 1000 characters)")
	}
	return nil
}

// Usable refuses a stack with which an app may not be staged, and returns a warning if
// that will be so. fresh is for apps that have never been staged.
func (s *Stack) Usable(fresh bool) (warning string, err error) {
	told := func(text string) string { return strings.TrimSpace(text + " " + s.StateReason) }
	switch {
	case s.State == StackDisabled, s.State == StackRestricted && fresh:
		return "", fault.Invalid(told("ERROR: Staging failed. The stack '" + s.Name + "' is '" + string(s.State) +
			"' and cannot be used for staging."))
	case s.State == StackDeprecated:
		return told("WARNING: The stack '" + s.Name + "' is '" + string(s.State) + "' and will be removed in the future."),
			nil
	}
	return "", nil
}
