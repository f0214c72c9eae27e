package client

import "time"

// Member is the main process or a sidecar of an instance.
type Member struct {
	Name  string  `json:"name"`
	Type  string  `json:"type"`
	State string  `json:"state"`
	Since *string `json:"since"`
	CPU   float64 `json:"cpu"`
	Mem   int64   `json:"mem"`
	// MemQuota is its own limit, which is enforced.
	MemQuota *int64      `json:"mem_quota"`
	Restarts int         `json:"restarts"`
	LastExit *MemberExit `json:"last_exit"`
}

// MemberExit is how a member ended the last time.
type MemberExit struct {
	Status int       `json:"status"`
	Reason string    `json:"reason"`
	Time   time.Time `json:"time"`
}
