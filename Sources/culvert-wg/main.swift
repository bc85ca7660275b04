print("culvert")
