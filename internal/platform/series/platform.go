package series

// Platform stands for the GUID of an app in the series of the platform as a whole.
const Platform = "platform"

// Scopes of the platform; "" has the sums of all apps.
const (
	Messages = "messages" // of the notification service
	Builds   = "builds"
)

// Fields of points of messages. They share the columns of fields of apps that are combined in the same way.
const (
	Queued        = Status2xx
	Delivered     = Status3xx
	Failed        = Status4xx
	Undeliverable = Status5xx
	Unsubscribed  = StatusOther
	Retried       = LogBytes
	Waiting       = Memory // now, also of builds
)

// Fields of points of builds, likewise.
const (
	Staged      = Status2xx
	BuildFailed = Status4xx // because of the app
	BuildError  = Status5xx // because of the platform
	Building    = CPU       // now
)
