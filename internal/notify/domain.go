package notify

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
	Check   string       `json:"check"` // spf, dkim, dmarc, mx, reverse or tls
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
