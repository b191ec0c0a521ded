package doctor

var (
	JudgeInotify      = judgeInotify
	InotifyUse        = inotifyUse
	UserNamespaceHint = userNamespaceHint
)
