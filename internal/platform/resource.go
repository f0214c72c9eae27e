package platform

import (
	"slices"
	"time"
)

// Resource is what all nouns have.
type Resource struct {
	GUID    string
	Created time.Time
	Updated time.Time
}

// Base gives generic code the common fields.
func (r *Resource) Base() *Resource { return r }

// Metadata is what users attach to resources.
type Metadata struct {
	Labels      map[string]string
	Annotations map[string]string
}

// Meta gives generic code the metadata.
func (m *Metadata) Meta() *Metadata { return m }

// Organization is a group of spaces.
type Organization struct {
	Resource
	Metadata
	Name      string
	Suspended bool
	QuotaGUID string
}

// Space holds apps and service instances.
type Space struct {
	Resource
	Metadata
	Name       string
	OrgGUID    string
	QuotaGUID  string
	SSHAllowed bool
}

// User is somebody who can have roles: a person or a client of the
// authorization server, known here by its id there.
type User struct {
	Resource
	Metadata
}

// RoleType is what a user may do in an organization or space.
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

// Domain is a name below which routes are made. Without an organization it is
// shared by all.
type Domain struct {
	Resource
	Metadata
	Name       string
	Internal   bool
	OrgGUID    string
	SharedOrgs []string
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

// Destination sends requests of a route to a port of an app's process.
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
	Bundled   bool // comes with ingot; has no blob
	Checksum  string
}

// Stack is a root file system apps run in.
type Stack struct {
	Resource
	Metadata
	Name        string
	Description string
	Default     bool
}

// FeatureFlag switches something on or off for everybody but administrators.
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

// AuditEvent says who did what to whom.
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
}

// Job is work that outlives the request that asked for it.
//
//	PROCESSING ──▶ COMPLETE
//	  │   ▲  └───▶ FAILED
//	  ▼   │
//	POLLING (somebody else works, and is asked from time to time)
type Job struct {
	Resource
	Operation    string // "app.delete"
	State        JobState
	Errors       []JobError
	Warnings     []string
	ResourceType string // of the link: "app"
	ResourceGUID string
	// Payload is what the worker needs; it may hold secrets and is encrypted.
	Payload []byte
	// Lease is until when a worker has it; Worker names that worker.
	Lease   time.Time
	Worker  string
	Attempt int
	// Due is when it should be looked at next.
	Due time.Time
}

// JobState says how far a job is.
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
