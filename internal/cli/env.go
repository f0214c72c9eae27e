package cli

import "ingot/internal/cli/core"

// What the program gives the client, and what doctor found.
type (
	Env           = core.Env
	Other         = core.Other
	DoctorOptions = core.DoctorOptions
	Finding       = core.Finding
)

// The states of findings.
const (
	FindingOK      = core.FindingOK
	FindingMissing = core.FindingMissing
	FindingNote    = core.FindingNote
	FindingWarn    = core.FindingWarn
	FindingFail    = core.FindingFail
)
