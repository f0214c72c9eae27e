package cfapi

import "time"

// Operation is the last operation on a service instance or binding.
type Operation struct {
	Type        string    `json:"type"`
	State       string    `json:"state"`
	Description string    `json:"description"`
	Created     time.Time `json:"created_at"`
	Updated     time.Time `json:"updated_at"`
}

// Running reports whether the operation is in progress.
func (o *Operation) Running() bool {
	return o != nil && (o.State == "in progress" || o.State == "initial")
}

// ServiceInstance is a service instance.
type ServiceInstance struct {
	Thing
	Type             string     `json:"type"`
	Tags             []string   `json:"tags"`
	Last             *Operation `json:"last_operation"`
	UpgradeAvailable bool       `json:"upgrade_available"`
	DashboardURL     string     `json:"dashboard_url"`
	SyslogDrainURL   string     `json:"syslog_drain_url"`
	RouteServiceURL  string     `json:"route_service_url"`
	Relationships    struct {
		Space To `json:"space"`
		Plan  To `json:"service_plan"`
	} `json:"relationships"`
}

// Plan is a service plan.
type Plan struct {
	Thing
	Description string `json:"description"`
	Free        bool   `json:"free"`
	Available   bool   `json:"available"`
	Visibility  string `json:"visibility_type"`
	Maintenance struct {
		Version     string `json:"version"`
		Description string `json:"description"`
	} `json:"maintenance_info"`
	Relationships struct {
		Offering To `json:"service_offering"`
	} `json:"relationships"`
}

// Offering is a service offering.
type Offering struct {
	Thing
	Description   string   `json:"description"`
	Tags          []string `json:"tags"`
	Relationships struct {
		Broker To `json:"service_broker"`
	} `json:"relationships"`
}

// Binding is a service binding or key.
type Binding struct {
	Thing
	Type          string     `json:"type"`
	Last          *Operation `json:"last_operation"`
	Relationships struct {
		App      To `json:"app"`
		Instance To `json:"service_instance"`
	} `json:"relationships"`
}

// Rotation is the rotation of a binding's credentials.
type Rotation struct {
	Thing
	State         string `json:"state"`
	Method        string `json:"method"`
	GraceSeconds  int    `json:"grace_seconds"`
	RevokeAt      string `json:"revoke_at"`
	Description   string `json:"description"`
	Relationships struct {
		App     To `json:"app"`
		Binding To `json:"service_credential_binding"`
	} `json:"relationships"`
}
