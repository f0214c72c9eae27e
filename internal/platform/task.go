package platform

// TaskState is the state of a task.
//
//	PENDING ──▶ RUNNING ──▶ SUCCEEDED
//	   │           ├──────▶ FAILED
//	   └───┬───────┘          ▲
//	       ▼ the user cancels it
//	   CANCELING ─────────────┘
type TaskState string

// The states of a task.
const (
	TaskPending   TaskState = "PENDING"
	TaskRunning   TaskState = "RUNNING"
	TaskCanceling TaskState = "CANCELING"
	TaskSucceeded TaskState = "SUCCEEDED"
	TaskFailed    TaskState = "FAILED"
)

// Over reports whether the state is final.
func (s TaskState) Over() bool { return s == TaskSucceeded || s == TaskFailed }

// ActiveTasks returns the condition that selects tasks that are not over.
func ActiveTasks() Cond {
	return In("state", string(TaskPending), string(TaskRunning), string(TaskCanceling))
}

// Task runs a command once, with an app's droplet. The guid is the engine's
// id of its instance.
type Task struct {
	Resource
	Metadata
	AppGUID string
	// Sequence is its number among the tasks of the app. Numbers are not reused.
	Sequence int
	Name     string
	// Command may hold secrets and is encrypted.
	Command     string
	DropletGUID string
	State       TaskState
	// Reason is why it failed, for the user.
	Reason   string
	MemoryMB int
	DiskMB   int
	LogRate  int64 // bytes a second; -1 means no limit
}

// Source returns the source of the task's lines in the app's log.
func (t *Task) Source() string { return "APP/TASK/" + t.Name }
