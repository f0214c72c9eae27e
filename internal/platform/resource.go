package platform

import (
	"slices"
	"time"
)

// Resource holds the fields that all nouns have.
type Resource struct {
	GUID    string
	Created time.Time
	Updated time.Time
}

// Base returns the common fields, for generic code.
func (r *Resource) Base() *Resource { return r }

// Metadata is the labels and annotations that users set on resources.
type Metadata struct {
	Labels      map[string]string
	Annotations map[string]string
}

// Meta returns the metadata, for generic code.
func (m *Metadata) Meta() *Metadata { return m }

// Organization is a group of spaces.
type Organization struct {
	Resource
	Metadata
	Name      string
	Suspended bool
	QuotaGUID string
	// SegmentGUID is the default isolation segment; empty means the shared one.
	SegmentGUID string
}

// Space holds apps and service instances.
type Space struct {
	Resource
	Metadata
	Name       string
	OrgGUID    string
	QuotaGUID  string
	SSHAllowed bool
	// SegmentGUID is the isolation segment; empty means the organization's default.
	SegmentGUID string
}

// User is a person or client of the authorization server that can have roles. Its
// guid is its id there.
type User struct {
	Resource
	Metadata
}

// RoleType is a kind of role in an organization or space.
type RoleType string

// The roles.
const (
	OrgUser           RoleType = "organization_user"
	OrgManager        RoleType = "organization_manager"
	OrgAuditor        RoleType = "organization_auditor"
	OrgBillingManager RoleType = "organization_billing_manager"
	SpaceDeveloper    RoleType = "space_developer"
	SpaceManager      RoleType = "space_manager"
	SpaceAuditor      RoleType = "space_auditor"
	SpaceSupporter    RoleType = "space_supporter"
)

// OrganizationRoles are the roles that are held in an organization, SpaceRoles
// those that are held in a space.
var (
	OrganizationRoles = []RoleType{OrgUser, OrgManager, OrgAuditor, OrgBillingManager}
	SpaceRoles        = []RoleType{SpaceDeveloper, SpaceManager, SpaceAuditor, SpaceSupporter}
)

// OfOrganization reports whether the role is held in an organization.
func (r RoleType) OfOrganization() bool { return slices.Contains(OrganizationRoles, r) }

// Role gives a user a RoleType in one organization or in one space.
type Role struct {
	Resource
	Type      RoleType
	UserGUID  string
	OrgGUID   string // of organization roles
	SpaceGUID string // of space roles
}

// Domain is a name below which routes are created. Without an organization all
// organizations share it.
type Domain struct {
	Resource
	Metadata
	Name       string
	Internal   bool
	OrgGUID    string
	SharedOrgs []string
	// RouterGroup is the guid of the router group of a domain for TCP routes; empty
	// means that its routes are HTTP routes.
	RouterGroup string
}

// Protocol returns the protocol of the domain's routes.
func (d *Domain) Protocol() string {
	if d.RouterGroup != "" {
		return ProtocolTCP
	}
	return ProtocolHTTP
}

// Route is an address of apps.
type Route struct {
	Resource
	Metadata
	SpaceGUID    string
	DomainGUID   string
	Host         string
	Path         string
	Port         int // 0 for http
	Protocol     string
	Options      map[string]string
	SharedSpaces []string
}

// Destination maps a route to a port of an app's process.
type Destination struct {
	Resource
	RouteGUID   string
	AppGUID     string
	ProcessType string
	Port        int // 0 means the default
	Weight      int // 0 means none
	Protocol    string
}

// BuildpackState reports whether a buildpack can be used.
type BuildpackState string

// The states of a buildpack.
const (
	BuildpackAwaitingUpload BuildpackState = "AWAITING_UPLOAD"
	BuildpackReady          BuildpackState = "READY"
)

// Buildpack makes droplets from packages.
type Buildpack struct {
	Resource
	Metadata
	Name      string
	Stack     string
	Position  int
	Enabled   bool
	Locked    bool
	State     BuildpackState
	Filename  string
	Lifecycle string
	Bundled   bool // part of ingot; has no blob
	Checksum  string
}

// Stack is a root file system that apps run in.
type Stack struct {
	Resource
	Metadata
	Name        string
	Description string
	Default     bool
	State       StackState
	StateReason string
}

// FeatureFlag enables or disables a feature for users who are not administrators.
type FeatureFlag struct {
	Name               string
	Enabled            bool
	CustomErrorMessage string
	Updated            time.Time
}

// EnvGroup is environment variables for all apps, when running or staging.
type EnvGroup struct {
	Name    string // running, staging
	Var     map[string]string
	Updated time.Time
}

// AuditEvent records an action: its actor, type and target.
type AuditEvent struct {
	Resource
	Type       string
	ActorGUID  string
	ActorType  string // user, app, process, client
	ActorName  string
	TargetGUID string
	TargetType string
	TargetName string
	Data       map[string]any
	SpaceGUID  string
	OrgGUID    string
	// Alerted means that the developers of the space do not have to be notified of it, or
	// have been.
	Alerted bool
}

// The types of audit events that developers are notified of.
const (
	EventCrash              = "app.crash"
	EventBuildFailed        = "audit.app.build.failed"
	EventDeploymentFinished = "audit.app.deployment.finished"
	EventServiceOperation   = "audit.service_instance.operation-finished"
)

// EventDevelopersNotified is the type of the event that a space's developers were notified of what
// happened to an app.
const EventDevelopersNotified = "audit.app.developers.notified"

// Alerting reports whether developers are notified of events of a type.
func Alerting(kind string) bool {
	switch kind {
	case EventCrash, EventBuildFailed, EventDeploymentFinished, EventServiceOperation:
		return true
	}
	return false
}

// Job is an operation that continues after the request that started it.
//
//	PROCESSING ──▶ COMPLETE
//	  │   ▲  └───▶ FAILED
//	  ▼   │
//	POLLING (waits for another server, such as a broker)
type Job struct {
	Resource
	Operation    string // "app.delete"
	State        JobState
	Errors       []JobError
	Warnings     []string
	ResourceType string // of the link: "app"
	ResourceGUID string
	// Payload is the input of the worker. It may hold secrets and is encrypted.
	Payload []byte
	// Lease is when the claim of Worker on the job expires.
	Lease   time.Time
	Worker  string
	Attempt int
	// Due is when a worker should take it next.
	Due time.Time
}

// JobState is the state of a job.
type JobState string

// The states of a job.
const (
	JobProcessing JobState = "PROCESSING"
	JobPolling    JobState = "POLLING"
	JobComplete   JobState = "COMPLETE"
	JobFailed     JobState = "FAILED"
)

// JobError is why a job failed, as the API shows it.
type JobError struct {
	Code   int    `json:"code"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
}
