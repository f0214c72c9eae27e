package notify

import (
	"context"
	"math"
	"time"
)

// DomainStatus is how serious a finding is.
type DomainStatus string

const (
	DomainOK      DomainStatus = "ok"
	DomainWarning DomainStatus = "warning" // mail arrives, but something should be changed
	DomainProblem DomainStatus = "problem" // receivers reject mail, or treat it as spam
)

// DomainReport is what receivers find when they check mail of a sender's domain.
type DomainReport struct {
	Domain   string          `json:"domain"`
	Findings []DomainFinding `json:"findings"`
}

// DomainFinding is the result of one check.
type DomainFinding struct {
	Check   string       `json:"check"` // spf, dkim, dmarc, mx, reverse, tls or mta-sts
	Status  DomainStatus `json:"status"`
	Message string       `json:"message"`
	// Record is a record of the DNS to create or to replace.
	Record *DNSRecord `json:"record,omitempty"`
}

// DNSRecord is a record of the DNS.
type DNSRecord struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Value string `json:"value"`
}

const (
	// NoMailQuota is how many messages MailQuotas.TakeMail returns for a domain without a quota.
	NoMailQuota = math.MaxInt32
	// WarmthKept is after how many days without mail a domain begins again.
	WarmthKept = 30
)

// MailQuotas counts mail by receiving domain and day.
type MailQuotas interface {
	// TakeMail takes parts of the quotas of domains for a day since 1970, at most as many messages as are wanted, and
	// returns what it took of each. quota returns that of a domain's n-th day, which is 0 for the first; a negative
	// one means that the domain has none. A day that has passed counts as the latest one.
	TakeMail(ctx context.Context, day int, wanted map[string]int, quota func(n int) int) (map[string]MailPart, error)
	// ReturnMail returns parts that were taken for a day and not sent. A domain that has sent nothing on its first day
	// begins again with its next message.
	ReturnMail(ctx context.Context, day int, unused map[string]int) error
}

// MailPart is a part of a domain's quota: how many messages, and the number of the domain's day, from 0.
type MailPart struct{ Messages, Day int }

// MailState is what a server knows of the mail servers and of receiving domains.
type MailState struct {
	Routes []MailRoute `json:"routes"`
	// Domains are those that get less mail at present, or could, by a configured limit; at most MaxMailDomains.
	Domains []MailDomain `json:"domains"`
	// WarmUp is nil if there is no plan.
	WarmUp *MailWarmUp `json:"warm_up,omitempty"`
	// Postponed are numbers since the start of the server.
	Postponed MailPostponed `json:"postponed"`
}

// MaxMailDomains is how many domains a MailState lists.
const MaxMailDomains = 100

// MailRoute is a mail server that messages may take.
type MailRoute struct {
	Name   string `json:"name"`
	Server string `json:"server"` // host and port
	// Weight is its share; with 0 it is used when the others fail. Domains are those that it is for; empty means all.
	Weight  int      `json:"weight"`
	Domains []string `json:"domains,omitempty"`
	// State is closed, open (left alone) or half-open (being tried), Failures counts since the last success.
	State     string     `json:"state"`
	Failures  int        `json:"failures"`
	Reason    string     `json:"reason,omitempty"`
	Until     *time.Time `json:"until,omitempty"`
	Delivered int64      `json:"delivered"` // since the start of the server
}

// MailDomain is a receiving domain.
type MailDomain struct {
	Domain string `json:"domain"`
	// Slow means that it has its own connections, because its answers take long.
	Slow bool `json:"slow"`
	// AnswerMS is how long an answer takes, in milliseconds.
	AnswerMS int64 `json:"answer_ms"`
	// Rate is how many messages this server sends in a second at most; 0 means no limit. Lowered is true if the domain
	// has asked for less, with Reason.
	Rate    float64 `json:"rate"`
	Lowered bool    `json:"lowered"`
	Reason  string  `json:"reason,omitempty"`
	// Sending is how many messages go to it now, at most Connections.
	Sending     int `json:"sending"`
	Connections int `json:"connections"`
}

// MailWarmUp is the plan for a sender that receivers do not know yet.
type MailWarmUp struct {
	First  int     `json:"first"`
	Growth float64 `json:"growth"`
	Days   int     `json:"days"`
}

// MailPostponed counts messages that had no turn, by reason; each counts whenever it is postponed. Busy counts answers
// that asked for less.
type MailPostponed struct {
	Rate   int64 `json:"rate"`
	Slow   int64 `json:"slow"`
	WarmUp int64 `json:"warm_up"`
	Busy   int64 `json:"busy_answers"`
}
