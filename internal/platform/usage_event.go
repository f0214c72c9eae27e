package platform

// AppUsageEvent records a change of what an app, a task or a build uses, for billing.
type AppUsageEvent struct {
	Resource
	State UsageState
	// Previous is what it was before; if it is empty there was nothing, and the other
	// previous values have no meaning.
	Previous          string
	AppGUID           string
	AppName           string
	ProcessGUID       string // of processes
	ProcessType       string
	TaskGUID          string // of tasks
	TaskName          string
	BuildGUID         string // of builds
	SpaceGUID         string
	SpaceName         string
	OrgGUID           string
	BuildpackGUID     string
	BuildpackName     string
	MemoryMB          int // of one instance
	PreviousMemoryMB  int
	Instances         int
	PreviousInstances int
}

// UsageState is what a usage event reports.
type UsageState string

// The states of app usage events.
const (
	UsageStarted        UsageState = "STARTED"
	UsageStopped        UsageState = "STOPPED"
	UsageTaskStarted    UsageState = "TASK_STARTED"
	UsageTaskStopped    UsageState = "TASK_STOPPED"
	UsageStagingStarted UsageState = "STAGING_STARTED"
	UsageStagingStopped UsageState = "STAGING_STOPPED"
	UsageBuildpackSet   UsageState = "BUILDPACK_SET"
)

// The states of service usage events.
const (
	UsageCreated UsageState = "CREATED"
	UsageUpdated UsageState = "UPDATED"
	UsageDeleted UsageState = "DELETED"
)

// ServiceUsageEvent records that a service instance was created, changed or deleted,
// for billing.
type ServiceUsageEvent struct {
	Resource
	State        UsageState
	SpaceGUID    string
	SpaceName    string
	OrgGUID      string
	InstanceGUID string
	InstanceName string
	InstanceType string
	PlanGUID     string // of managed ones, as the following
	PlanName     string
	OfferingGUID string
	OfferingName string
	BrokerGUID   string
	BrokerName   string
}

// The types of service instances in usage events.
const (
	UsageManaged      = "managed_service_instance"
	UsageUserProvided = "user_provided_service_instance"
)
