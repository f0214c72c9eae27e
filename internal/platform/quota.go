package platform

// Limits are what a quota allows. Nil means that there is no limit.
type Limits struct {
	// MemoryMB, Instances and LogRate are of all that runs, and ProcessMemoryMB
	// of one instance or task.
	MemoryMB        *int   `json:"memory_mb,omitempty"`
	ProcessMemoryMB *int   `json:"process_memory_mb,omitempty"`
	Instances       *int   `json:"instances,omitempty"`
	LogRate         *int64 `json:"log_rate,omitempty"` // bytes a second
	// Tasks are those that run at the same time.
	Tasks            *int `json:"tasks,omitempty"`
	PaidServices     bool `json:"paid_services,omitempty"`
	ServiceInstances *int `json:"service_instances,omitempty"`
	ServiceKeys      *int `json:"service_keys,omitempty"`
	Routes           *int `json:"routes,omitempty"`
	ReservedPorts    *int `json:"reserved_ports,omitempty"`
	// Domains are the private ones of an organization.
	Domains *int `json:"domains,omitempty"`
}

// OrganizationQuota limits what each of the organizations it is applied to may
// use. These name it.
type OrganizationQuota struct {
	Resource
	Name   string
	Limits Limits
}

// DefaultQuota is the name of the quota of new organizations.
const DefaultQuota = "default"

// SpaceQuota limits what each of the spaces it is applied to may use, within the
// quota of their organization. These name it.
type SpaceQuota struct {
	Resource
	Name    string
	OrgGUID string
	Limits  Limits
}
