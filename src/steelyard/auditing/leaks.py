def leaks(task, settings):
    return []
