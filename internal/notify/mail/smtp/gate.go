package smtp

import (
	"strings"
	"time"

	"ingot/internal/notify"
)

// Gate limits how many messages are sent to each domain at a time, by all clients that have it. Its methods are called
// concurrently, and must not block.
type Gate interface {
	// Enter takes a permit for a message. Follow keeps the permit of a message for the next one to the same domain.
	Enter(domain string) Entry
	Follow(domain string) Entry
	// Leave gives a permit back.
	Leave(domain string)
	// Changes returns a channel that is closed when a permit may have become free.
	Changes() <-chan struct{}
	// Quick reports whether the domain is known to answer quickly. Only then is the envelope of a message sent behind the
	// content of the previous one: a server that waits for something may hold back the answer to that.
	Quick(domain string) bool
	// Late reports that a message to the domain, which has a permit, has waited for an answer longer than Config.Late.
	Late(domain string)
}

// Entry is the answer of a Gate.
type Entry int

const (
	// Wait means that there is no permit now.
	Wait Entry = iota
	// Enter means that the message has a permit.
	Enter
	// Away means that the message does not belong to this client's connections.
	Away
)

// Result is that of a message, with what it says about the domain and the mail server.
type Result struct {
	notify.Result
	// Took is how long the mail server took to answer, without the time for a large content; 0 if nothing was sent.
	Took time.Duration
	// Busy means that the answer asks to send less: 421, 450, 451 or 452, about neither the recipient nor greylisting.
	Busy bool
	// Unsent means that the mail server failed and certainly has not accepted the message.
	Unsent bool
	// Away means that the Gate turned it away: it was not attempted.
	Away bool
}

// transferRate is how many bytes of a content a mail server reads in a second before it counts as slow.
const transferRate = 1 << 20

// took returns how long an answer took that began at some time, without the time for a content.
func took(began time.Time, size int) time.Duration {
	d := time.Since(began) - time.Duration(size)*time.Second/transferRate
	return max(d, time.Microsecond)
}

// busy reports whether the reply asks to send less. Greylisting asks to come again, and a full mailbox or an unknown
// address says nothing about the domain.
func (r reply) busy() bool {
	switch r.code {
	case 421, 450, 451, 452:
	default:
		return false
	}
	if strings.HasPrefix(r.enhanced, "4.1.") || r.enhanced == "4.2.2" {
		return false
	}
	for _, line := range r.lines {
		if l := strings.ToLower(line); strings.Contains(l, "greylist") || strings.Contains(l, "graylist") {
			return false
		}
	}
	return true
}
