package platform

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"ingot/internal/base/fault"
)

// IsolationSegment is a pool of machines for the apps of the organizations that are
// entitled to it. A space uses the segment that is assigned to it, otherwise the
// default of its organization, otherwise SharedSegment.
type IsolationSegment struct {
	Resource
	Metadata
	Name string
	// Orgs are the organizations that are entitled to it.
	Orgs []string
}

// The segment of all apps that have no other. It has the guid of every Cloud
// Foundry, and cannot be changed.
const (
	SharedSegment     = "shared"
	SharedSegmentGUID = "933b4c58-120b-499a-b85d-4b6fc9e2903b"
)

// CheckSegmentName refuses names that Cloud Foundry refuses.
func CheckSegmentName(name string) error {
	switch {
	case name == "":
		return fault.Invalid("Name can't be blank")
	case utf8.RuneCountInString(name) > maxName:
		return fault.Invalid("Name is too long (maximum is 255 characters)")
	case strings.TrimSpace(name) == "" || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }):
		return fault.Invalid("Isolation Segment names can only contain non-blank unicode characters")
	}
	return nil
}
